// SPDX-License-Identifier: Apache-2.0
/// \file
/// Codecs by name, and the one that does nothing.
#include <tern/global/codec.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>
#include <tern/global/codec/builtin.hpp>
#include <tern/global/codec/frame.hpp>

namespace tern::global {

const option<std::string> codec_option{"global-codec", "none",
                                       "a lossless codec for device data of 64 KiB and more that travel without one: "
                                       "none; zstd; or auto, which is zstd where measurements say that it pays",
                                       one_of({"none", "zstd", "auto"})};

namespace {

// A function's static: static objects are made in any order.
std::vector<codec_kind>& entered_codecs() {
  static std::vector<codec_kind> kinds;
  return kinds;
}

class no_codec final : public codec {
public:
  no_codec() : codec("none", true) {}
  std::size_t bound(const array_shape& s) const override { return s.bytes(); }
  std::optional<std::size_t> fixed_size(const array_shape& s) const override { return s.bytes(); }
  std::size_t encode(const array_shape&, std::span<const std::byte> from, std::span<std::byte> to) const override {
    std::memcpy(to.data(), from.data(), from.size());
    return from.size();
  }
  void decode(const array_shape& s, std::span<const std::byte> from, std::span<std::byte> to) const override {
    if (from.size() != to.size())
      detail::bad_stream(*this, s, "there are " + std::to_string(from.size()) + " bytes of them");
    std::memcpy(to.data(), from.data(), from.size());
  }
};

// Parameters that are a word alone become NAME=yes. `auto` is of all codecs, and is taken out.
std::string with_values(std::string_view list, bool& decides) {
  std::string all;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view one = list.substr(0, comma);
    if (one == "auto" && !decides)
      decides = true;
    else
      all += (all.empty() ? "" : ",") + std::string(one) + (one.find('=') == one.npos && !one.empty() ? "=yes" : "");
    if (comma != list.npos && comma + 1 == list.size()) all += ','; // refused as it is
    list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
  }
  return all;
}

} // namespace

std::string array_shape::text() const {
  static constexpr const char* kinds[] = {"elements", "integers", "floats", "doubles"};
  std::string text;
  for (const std::int32_t e : extent)
    if (e != 1 || !text.empty()) text += (text.empty() ? "" : " x ") + std::to_string(e);
  if (text.empty()) text = "1";
  return text + " " + kinds[static_cast<std::size_t>(kind)] + " of " + std::to_string(element) + " bytes";
}

namespace detail {

void enter(codec_kind kind) { entered_codecs().push_back(std::move(kind)); }

codec_kind none_kind() {
  return {"none", "elements as they are", {}, [](policy_parameters&) -> std::unique_ptr<codec> {
            return std::make_unique<no_codec>();
          }};
}

error without_library(const std::string& name, const std::string& package) {
  return error(errc::unsupported, "codec " + name + " needs a library that was not there when Tern was built",
               "install " + package + " and build Tern again");
}

void bad_stream(const codec& c, const array_shape& s, const std::string& why) {
  throw error(errc::invalid_data, "what was encoded by " + c.text() + " is not " + s.text() + ": " + why,
              "all ranks must run the same program");
}

std::string text_of_number(double x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

} // namespace detail

std::vector<codec_kind> codecs() {
  std::vector<codec_kind> all = entered_codecs();
  for (codec_kind& kind : std::vector<codec_kind>{detail::none_kind(), detail::zfp_kind(), detail::zstd_kind()})
    all.push_back(std::move(kind));
  std::sort(all.begin(), all.end(), [](const codec_kind& a, const codec_kind& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(all.begin(), all.end(),
                                        [](const codec_kind& a, const codec_kind& b) { return a.name == b.name; });
  if (twice != all.end())
    throw error(errc::already_exists, "two codecs are called " + twice->name, "give one of them another name");
  return all;
}

std::shared_ptr<const codec> make_codec(std::string_view text) {
  const policy_text parts = split_policy(text == "auto" ? "zstd:auto" : text);
  const std::vector<codec_kind> all = codecs();
  const auto kind = std::find_if(all.begin(), all.end(), [&](const codec_kind& k) { return k.name == parts.name; });
  if (kind == all.end()) {
    std::vector<std::string> names;
    for (const codec_kind& k : all) names.push_back(k.name);
    throw error(errc::invalid_option, "there is no codec \"" + parts.name + "\"",
                tern::detail::nearest_of(parts.name, names, "there are"));
  }
  if (!kind->package.empty()) throw detail::without_library(kind->name, kind->package);
  bool decides = false;
  policy_parameters given(parts.name, with_values(parts.rest, decides), "codec");
  std::shared_ptr<codec> made = kind->make(given);
  given.finish();
  made->decides_ = decides;
  if (made->text().size() > detail::longest_codec)
    throw error(errc::invalid_option, "the codec \"" + made->text() + "\" has too long a text",
                "give it a text of at most " + std::to_string(detail::longest_codec) + " characters");
  return made;
}

void check_codec(const codec& c, const array_shape& s) {
  if (const std::string why = c.refuses(s); !why.empty())
    throw error(errc::invalid_argument, "codec " + c.text() + " does not take " + s.text() + ": " + why,
                "zstd and none take all");
}

} // namespace tern::global
