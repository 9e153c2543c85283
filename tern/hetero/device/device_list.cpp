// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/device_list.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>
#include <tern/hetero/device/device_kind.hpp>
#include <tern/hetero/device/settings.hpp>
#include <tern/hetero/memory/pinned_memory.hpp>
#include <tern/hetero/power/powercap.hpp>

namespace tern::hetero {
namespace detail {
namespace {

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> all;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    if (!word.empty()) all.push_back(word);
  }
  return all;
}

bool is_named(const std::string& word, const device_info& i) { return word == i.id || word == name_of(i.kind); }
bool has(const std::vector<std::string>& list, const char* word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_all(const std::vector<std::string>& wanted) { return wanted.empty() || has(wanted, "all"); }

/// What the options ask for. Kernels are checked on the host only.
std::vector<std::string> wanted_by(const options& opts) {
  std::vector<std::string> wanted = words(opts[hetero_devices]);
  if (opts[hetero_checked] && is_all(wanted)) wanted = {"host"};
  return wanted;
}

std::vector<device_kind_entry> in_order() {
  std::vector<device_kind_entry> all = registered_kinds();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.order != b.order ? a.order < b.order : std::string_view(a.name) < b.name;
  });
  return all;
}

/// A search for devices: of each kind at most once, as its drivers must be opened for that.
class search {
public:
  search(const options& opts, int workers, std::vector<device_note>& notes, std::shared_ptr<pinned_memory> pinned,
         int sharers)
      : opts_(opts), shared_(with_sharers(opts, sharers)), workers_(workers), notes_(notes), wanted_(wanted_by(opts)),
        all_(is_all(wanted_)) {
    found_.infos.push_back(host_info(workers));
    found_.devices.emplace_back();
    found_.host_runs = is_wanted(found_.infos.front());
    found_.pinned = std::move(pinned);
  }

  found_devices run(bool simulated) {
    for (const device_kind_entry& k : kinds_)
      if ((k.in_simulations || !simulated) && (k.always || asks_for(k.kind))) look_for(k);
    for (const std::string& w : wanted_)
      if (w != "all" && std::none_of(found_.infos.begin(), found_.infos.end(),
                                     [&](const device_info& i) { return is_named(w, i) || w == "host"; }))
        refuse(w, simulated);
    constexpr std::size_t devices_most = 62; // bits of a mask
    if (found_.infos.size() > devices_most)
      throw error(errc::invalid_option,
                  "hetero-devices: " + std::to_string(found_.infos.size()) + " devices are too many",
                  "at most " + std::to_string(devices_most));
    return std::move(found_);
  }

private:
  bool is_wanted(const device_info& i) const {
    return all_ || std::any_of(wanted_.begin(), wanted_.end(), [&](const std::string& w) { return is_named(w, i); });
  }
  bool asks_for(device_kind kind) const {
    return all_ || std::any_of(wanted_.begin(), wanted_.end(),
                               [&](const std::string& w) { return w.starts_with(name_of(kind)); });
  }
  /// \return how many of them are used.
  int take(std::vector<std::unique_ptr<device>> some) {
    int used = 0;
    for (auto& d : some) {
      there_.push_back(d->info().id);
      if (!is_wanted(d->info())) continue;
      found_.infos.push_back(d->info());
      found_.devices.push_back(std::move(d));
      ++used;
    }
    return used;
  }
  void look_for(const device_kind_entry& k) {
    std::vector<std::string> said;
    device_search one{k.kind, k.in_simulations ? opts_ : shared_,       workers_, all_, used_,
                      said,   k.memory_to_pin ? found_.pinned : nullptr};
    if (take(k.find(one)) > 0) {
      used_ |= kinds_of(k.kind);
      if (one.pinned) found_.pinned = one.pinned;
    }
    for (std::string& text : said) notes_.push_back({k.kind, std::move(text)});
  }
  /// With all that there are, also where they were not asked for and so not looked for.
  [[noreturn]] void refuse(const std::string& word, bool simulated) {
    std::string why;
    for (const device_note& note : notes_)
      if (word.starts_with(name_of(note.kind))) why += "; " + note.text;
    if (simulated) why = "; a simulation has the host and simulated devices only, which know its time";
    for (const device_kind_entry& k : kinds_)
      if (!simulated && !k.always && !asks_for(k.kind)) look_for(k);
    throw error(errc::invalid_option, "there is no device '" + word + "' here" + why,
                tern::detail::nearest_of(word, there_, "there are"));
  }

  const options& opts_;
  const options shared_; // of devices that others use, too
  const int workers_;
  std::vector<device_note>& notes_;
  const std::vector<std::string> wanted_;
  const bool all_;
  const std::vector<device_kind_entry> kinds_ = in_order();
  found_devices found_;
  std::vector<std::string> there_{"host"}; // by id, used or not
  device_kinds used_ = 0;
};

bool looks_like_a_device(const std::string& word) {
  if (word == "all" || word == "host") return true;
  for (const device_kind_entry& k : registered_kinds())
    if (const std::string name = k.name;
        word.starts_with(name) && word.find_first_not_of("0123456789", name.size()) == word.npos)
      return true;
  return false;
}

} // namespace

device_info host_info(int workers) {
  device_info host;
  host.kind = device_kind::host;
  host.id = host.name = "host";
  host.driver = "Tern";
  host.compute_units = workers;
  host.shares_host_memory = true;
  return host;
}

options own_devices(options opts, int scheduler) {
  const std::string text = opts[hetero_simulated];
  const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), ';')) + 1;
  if (count == 1) return opts;
  std::size_t from = 0;
  for (std::size_t n = static_cast<std::size_t>(std::max(scheduler, 0)) % count; n > 0; --n)
    from = text.find(';', from) + 1;
  opts.set(hetero_simulated, text.substr(from, text.find(';', from) - from));
  return opts;
}

bool looks_at_once(const options& opts, bool simulated) {
  const std::vector<std::string> wanted = wanted_by(opts);
  if (std::any_of(wanted.begin(), wanted.end(), [](const std::string& w) { return w != "all"; })) return true;
  const auto& kinds = registered_kinds();
  return std::none_of(kinds.begin(), kinds.end(),
                      [&](const device_kind_entry& k) { return !k.always && (k.in_simulations || !simulated); });
}

std::shared_ptr<pinned_memory> memory_to_pin(const options& opts) {
  for (const device_kind_entry& k : in_order())
    if (k.memory_to_pin)
      if (auto memory = k.memory_to_pin(opts)) return memory;
  return nullptr;
}

found_devices find_devices(const options& opts, int workers, bool simulated, std::vector<device_note>& notes,
                           std::shared_ptr<pinned_memory> pinned, int sharers) {
  return search(opts, workers, notes, std::move(pinned), sharers).run(simulated);
}

void verify_devices(const std::string& list, const options& all) {
  const std::vector<std::string> wanted = words(list);
  const bool set_by_program = all[hetero_devices] != list || all.source(hetero_devices.name()) == "program";
  const bool named = std::any_of(wanted.begin(), wanted.end(), [](const std::string& w) {
    return w != "all" && w != "host"; // a device, or what looks like none
  });
  const auto& kinds = registered_kinds();
  const bool possible = std::all_of(kinds.begin(), kinds.end(),
                                    [&](const device_kind_entry& k) { return !k.before_start || k.before_start(all); });
  if (named && !set_by_program && possible) {
    std::vector<device_note> notes;
    static_cast<void>(find_devices(all, 1, false, notes));
  }
  for (const std::string& w : wanted) {
    if (looks_like_a_device(w)) continue;
    std::vector<std::string> like{"all", "host"};
    for (const device_kind_entry& k : kinds) {
      like.emplace_back(k.name);
      like.push_back(std::string(k.name) + "0");
    }
    throw error(errc::invalid_option, "there is no device '" + w + "'",
                tern::detail::nearest_of(w, like, "names are like"));
  }
}

} // namespace detail

namespace {

/// Of `device_info::energy`.
std::string text_of(const std::shared_ptr<detail::energy_source>& source, const std::string& why) {
  if (!source) return why.empty() ? "" : "not known: " + why;
  const auto watts = [](double w) { return std::to_string(std::lround(w)) + " W"; };
  const auto now = source->before_measuring();
  return source->name() + (now && now->idle > 0 ? ": " + watts(now->idle) + " now, at most " + watts(now->busy)
                           : now                ? ": at most " + watts(now->busy)
                                                : "");
}

} // namespace

std::vector<device_info> devices(const options& opts, std::vector<device_note>* notes, bool open) {
  std::vector<device_note> unwanted;
  std::vector<device_note>& said = notes ? *notes : unwanted;
  detail::found_devices f = detail::find_devices(opts, 1, false, said);
  std::vector<device_info> all;
  for (std::size_t d = 0; d < f.infos.size(); ++d) {
    try {
      if (open && f.devices[d]) f.devices[d]->open();
      all.push_back(f.infos[d]);
      std::string why;
      if (open)
        all.back().energy = text_of(
            f.devices[d] ? f.devices[d]->energy(why) : detail::open_powercap_energy(opts[hetero_powercap], why), why);
    } catch (const error& e) {
      said.push_back({f.infos[d].kind, e.message()});
    }
  }
  if (open && f.pinned) { // can it be locked? A slab is, when it is needed first
    f.pinned->free(f.pinned->allocate(1));
    if (f.pinned->bytes_not_locked() > 0)
      for (const detail::device_kind_entry& k : detail::registered_kinds())
        if (k.memory_to_pin &&
            std::any_of(all.begin(), all.end(), [&](const device_info& i) { return i.kind == k.kind; }))
          said.push_back({k.kind, std::string("the host's memory cannot be page-locked: ") + detail::pages_not_locked});
  }
  f.devices.clear(); // before the memory that they have locked
  return all;
}

} // namespace tern::hetero
