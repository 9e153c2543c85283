// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern info FOLDER`.
#include "tools/tern/info/checkpoints.hpp"

#include <cstdio>
#include <ctime>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include <tern/base/error.hpp>
#include <tern/mobile/checkpoint/checkpoint_file.hpp>
#include <tern/mobile/checkpoint/saved_tables.hpp>

namespace tern::tool {
namespace {

using json = nlohmann::ordered_json;
using namespace mobile::detail;

std::string moment_of(std::uint64_t seconds) {
  const auto t = static_cast<std::time_t>(seconds);
  std::tm utc{};
  if (seconds == 0 || !::gmtime_r(&t, &utc)) return "in a simulation";
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &utc));
  return text;
}

struct class_sum {
  std::uint64_t objects = 0, bytes = 0;
};

json describe_one(const checkpoint_folder& folder, std::uint64_t generation) {
  json j;
  j["checkpoint"] = folder.of(generation);
  try {
    int ranks = 1;
    std::uint64_t bytes = 0;
    std::map<std::string, class_sum> classes;
    json objects = json::array(), names = json::array(), roots = json::array();
    std::map<std::string, json> arrays;
    for (int r = 0; r < ranks; ++r) {
      const checkpoint_reader f(folder.file(generation, r), generation, r);
      if (r == 0) {
        ranks = static_cast<int>(f.head().ranks);
        j["written"] = moment_of(f.head().seconds);
        j["ranks"] = ranks;
        j["homes"] = f.head().homes;
      }
      f.verify();
      bytes += f.bytes();
      const byte_buffer packed = f.tables();
      saved_tables t;
      unpack_into({packed.data(), packed.size()}, t);
      objects.push_back(t.objects.size());
      for (const saved_class& c : t.classes) {
        classes[c.name].objects += c.objects;
        classes[c.name].bytes += c.bytes;
      }
      for (const saved_array& a : t.arrays) {
        json extents = json::array();
        for (std::size_t d = 0; d < static_cast<std::size_t>(a.dimensions) && d < a.size.size(); ++d)
          extents.push_back(a.size[d]);
        arrays[mobile::to_string(mobile::object_id(a.id))] = {
            {"name", a.name}, {"class", a.type}, {"extents", extents}, {"sparse", a.sparse}};
      }
      for (const saved_name& n : t.names) names.push_back(n.name);
      for (const saved_root& root : t.roots) roots.push_back(root.type);
    }
    j["bytes"] = bytes;
    j["objects_of_ranks"] = objects;
    for (const auto& [name, n] : classes) j["classes"][name] = {{"objects", n.objects}, {"bytes", n.bytes}};
    for (const auto& [id, a] : arrays) j["arrays"].push_back(a);
    j["names"] = names;
    j["roots"] = roots;
  } catch (const error& e) {
    j["damaged"] = e.message();
  }
  return j;
}

std::string comma_list(const json& all) {
  std::string text;
  for (const auto& x : all) text += (text.empty() ? "" : ", ") + (x.is_string() ? x.get<std::string>() : x.dump());
  return text;
}

void print_checkpoint(const json& j) {
  const auto line = [](const char* title, const std::string& text) { std::printf("  %-9s %s\n", title, text.c_str()); };
  std::printf("%s%s\n", j["checkpoint"].get<std::string>().c_str(), j.contains("damaged") ? ": damaged" : "");
  if (j.contains("damaged")) return line("", j["damaged"].get<std::string>());
  line("written", j["written"].get<std::string>());
  line("ranks", j["ranks"].dump() + ", with " + comma_list(j["objects_of_ranks"]) + " objects");
  line("bytes", j["bytes"].dump());
  if (j.contains("classes"))
    for (const auto& [name, n] : j["classes"].items())
      line("class", name + ": " + n["objects"].dump() + " objects, " + n["bytes"].dump() + " bytes");
  if (j.contains("arrays"))
    for (const auto& a : j["arrays"])
      line("array", (a["name"].get<std::string>().empty() ? "of " : "'" + a["name"].get<std::string>() + "' of ") +
                        a["class"].get<std::string>() + ", (" + comma_list(a["extents"]) + ")" +
                        (a["sparse"].get<bool>() ? ", sparse" : ""));
  if (!j["names"].empty()) line("names", comma_list(j["names"]));
  if (!j["roots"].empty()) line("roots", comma_list(j["roots"]));
}

} // namespace

int describe_checkpoints(const std::string& path, bool as_json) {
  const checkpoint_folder folder(path);
  json all = json::array();
  bool damaged = false;
  for (const std::uint64_t generation : folder.generations()) {
    all.push_back(describe_one(folder, generation));
    damaged = damaged || all.back().contains("damaged");
  }
  if (as_json)
    std::printf("%s\n", all.dump(2).c_str());
  else
    for (const json& j : all) print_checkpoint(j);
  return damaged ? 1 : 0;
}

} // namespace tern::tool
