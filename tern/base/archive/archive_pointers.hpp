// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Codecs for owning pointers.

#include <memory>
#include <typeinfo>

#include <tern/base/archive/archive_containers.hpp>

namespace tern::detail {

template <class T> void check_static_type(const T& object) {
  static_assert(!std::is_abstract_v<T>,
                "tern: a pointer to an abstract class cannot be serialized: its object's type is not "
                "known when loading; point to the concrete class, or use std::variant");
  if constexpr (std::is_polymorphic_v<T>)
    if (typeid(object) != typeid(T)) [[unlikely]]
      archive_not_static_type(type_name<T>(), typeid(object));
}

template <class T> struct codec<std::unique_ptr<T>> { // one byte, 0 or 1, then the object
  static_assert(!std::is_array_v<T>, "tern: unique_ptr<T[]> does not know its length: use std::vector");
  static constexpr std::size_t min_size = 1;

  template <class A> static void save(A& ar, const std::unique_ptr<T>& x) {
    const std::uint8_t flag = x != nullptr;
    ar.write(&flag, 1);
    if (!x) return;
    check_static_type(*x);
    nesting<A> guard(ar);
    save_value(ar, static_cast<const T&>(*x));
  }
  static void load(input_archive& ar, std::unique_ptr<T>& x) {
    using object = std::remove_cv_t<T>;
    x.reset();
    if (!ar.read_flag("unique_ptr's flag")) return;
    nesting<input_archive> guard(ar);
    if constexpr (archive_constructible<object> && !bitwise<object>) {
      x.reset(access::make_new<object>(ar));
    } else if constexpr (default_constructible<object>) {
      std::unique_ptr<object> made(access::make_new<object>());
      load_value(ar, *made);
      x = std::move(made);
    } else {
      x.reset(new object(load_new<object>(ar)));
    }
  }
};

template <class T>
struct codec<std::shared_ptr<T>> { // a number: 0 null, the next unused one a new object that follows, else one met
                                   // before
  static_assert(!std::is_array_v<T>, "tern: shared_ptr<T[]> does not know its length: use std::vector");
  static_assert(!std::is_void_v<T>, "tern: shared_ptr<void> does not know its object's type");
  static constexpr std::size_t min_size = sizeof(std::uint32_t);
  using object = std::remove_cv_t<T>;

  template <class A> static void save(A& ar, const std::shared_ptr<T>& x) {
    std::uint32_t id = 0;
    if (!x) return ar.write(&id, sizeof id);
    check_static_type(*x);
    const auto met = ar.objects().enter(x, typeid(object));
    if (!met.fresh && !met.finished) [[unlikely]]
      archive_cycle(type_name<object>());
    id = met.id;
    ar.write(&id, sizeof id);
    if (!met.fresh) return;
    nesting<A> guard(ar);
    save_value(ar, static_cast<const T&>(*x));
    ar.objects().finish(id);
  }
  static void load(input_archive& ar, std::shared_ptr<T>& x) {
    x.reset();
    const auto id = ar.read_number<std::uint32_t>();
    const std::size_t at = ar.position() - sizeof id, known = ar.objects().size();
    if (id == 0) return;
    if (id > known + 1) [[unlikely]]
      archive_bad_value(at, "shared_ptr's number", id, "at most " + std::to_string(known + 1));
    if (id <= known) {
      const auto& met = ar.objects()[id - 1];
      if (*met.type != typeid(object)) [[unlikely]]
        archive_bad_value(at, "shared_ptr's number", id, "an object of type " + std::string(type_name<object>()));
      if (!met.object) [[unlikely]]
        archive_bad_value(at, "shared_ptr's number", id, "no object that is still being read (the data has a cycle)");
      x = std::static_pointer_cast<object>(met.object);
      return;
    }
    nesting<input_archive> guard(ar);
    ar.objects().push_back({nullptr, &typeid(object)});
    std::shared_ptr<object> made;
    if constexpr (loads_in_place<object>) {
      made = std::make_shared<object>();
      load_value(ar, *made);
    } else if constexpr (default_constructible<object> && !archive_constructible<object>) {
      made.reset(access::make_new<object>());
      load_value(ar, *made);
    } else if constexpr (archive_constructible<object> && !bitwise<object>) {
      made.reset(access::make_new<object>(ar));
    } else {
      made = std::make_shared<object>(load_new<object>(ar));
    }
    ar.objects()[id - 1].object = made;
    x = std::move(made);
  }
};

} // namespace tern::detail
