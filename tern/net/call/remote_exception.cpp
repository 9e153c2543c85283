// SPDX-License-Identifier: Apache-2.0
#include <tern/net/call/remote_exception.hpp>

#include <typeinfo>
#include <utility>

#include <cxxabi.h>

#include <tern/base/language/type_name.hpp>

namespace tern::net::detail {

failure describe(std::exception_ptr e) {
  try {
    std::rethrow_exception(std::move(e));
  } catch (const error_within& x) {
    return {x.code(), x.message(), x.hint(), x.place(), x.context()};
  } catch (const error& x) {
    return {x.code(), x.message(), x.hint(), x.place(), {}};
  } catch (const std::exception& x) {
    return {errc::remote, tern::detail::type_name(typeid(x)) + ": " + x.what(), {}, {}, {}};
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    return {errc::remote, "an exception of type " + (type ? tern::detail::type_name(*type) : "unknown"), {}, {}, {}};
  }
}

} // namespace tern::net::detail
