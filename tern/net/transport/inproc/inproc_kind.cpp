// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport/inproc/inproc.hpp>
#include <tern/net/transport_kind.hpp>

namespace tern::net::detail {
namespace {

class inproc_kind final : public transport_kind {
public:
  inproc_kind()
      : transport_kind(
            {.name = "inproc", .what = "as threads of one process", .words = {}, .automatic = {}, .preference = 1}) {}
  int run(job_start& job, rank_runner run_ranks) const override { return run_ranks(job, make_inproc(job.ranks)); }
};

} // namespace

const transport_kind& inproc_transport() {
  static const inproc_kind one;
  return one;
}

} // namespace tern::net::detail
