// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/data/device_table.hpp>

#include <tern/base/error.hpp>

namespace tern::hetero::detail {

std::size_t device_table::number_of(std::string_view id) const {
  std::string there;
  const std::vector<device_info>& infos = now().infos;
  for (std::size_t d = 0; d < infos.size(); ++d) {
    if (infos[d].id == id) return d;
    there += (d == 0 ? "" : ", ") + infos[d].id;
  }
  throw error(errc::not_found, "there is no device '" + std::string(id) + "'", "there are: " + there);
}

} // namespace tern::hetero::detail
