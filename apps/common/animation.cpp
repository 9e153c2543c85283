// SPDX-License-Identifier: Apache-2.0
#include "apps/common/animation.hpp"

#include "apps/common/output_file.hpp"

#include <tern/base/error.hpp>

#ifdef APPS_HAVE_WEBP
#include <webp/encode.h>
#include <webp/mux.h>
#endif

namespace apps {

#ifdef APPS_HAVE_WEBP

namespace {

void check(bool fine, const std::string& what) {
  if (!fine) throw tern::error(tern::errc::system, "the WebP encoder failed: " + what, "write single pictures instead");
}

} // namespace

struct animation::encoder {
  int width, height, each, time = 0;
  std::size_t frames = 0;
  WebPConfig how{};
  WebPAnimEncoder* made = nullptr;
  encoder(int w, int h, int milliseconds) : width(w), height(h), each(milliseconds) {}
  encoder(const encoder&) = delete;
  encoder& operator=(const encoder&) = delete;
  ~encoder() { WebPAnimEncoderDelete(made); }
};

bool animations_are_built() noexcept { return true; }

animation::animation(int width, int height, int milliseconds_each, float quality)
    : encoder_(std::make_unique<encoder>(width, height, milliseconds_each)) {
  if (width < 1 || height < 1 || width > WEBP_MAX_DIMENSION || height > WEBP_MAX_DIMENSION)
    throw tern::error(tern::errc::invalid_argument,
                      "WebP has no pictures of " + std::to_string(width) + " x " + std::to_string(height) + " pixels");
  WebPAnimEncoderOptions options;
  check(WebPAnimEncoderOptionsInit(&options) != 0, "another version of the library is installed");
  check(WebPConfigPreset(&encoder_->how, WEBP_PRESET_PICTURE, quality) != 0, "settings");
  encoder_->how.method = 2; // a third of the time for a few per cent of bytes
  encoder_->made = WebPAnimEncoderNew(width, height, &options);
  check(encoder_->made != nullptr, "memory");
}

animation::~animation() = default;

void animation::add(const std::uint32_t* pixels) {
  WebPPicture picture;
  check(WebPPictureInit(&picture) != 0, "another version of the library is installed");
  picture.use_argb = 1;
  picture.width = encoder_->width;
  picture.height = encoder_->height;
  // It only reads them.
  picture.argb = const_cast<std::uint32_t*>(pixels); // NOLINT(cppcoreguidelines-pro-type-const-cast)
  picture.argb_stride = encoder_->width;
  const bool added = WebPAnimEncoderAdd(encoder_->made, &picture, encoder_->time, &encoder_->how) != 0;
  picture.argb = nullptr; // ours
  WebPPictureFree(&picture);
  check(added, WebPAnimEncoderGetError(encoder_->made));
  encoder_->time += encoder_->each;
  ++encoder_->frames;
}

std::size_t animation::frames() const noexcept { return encoder_->frames; }

void animation::write(const std::string& path) {
  if (encoder_->frames == 0) throw tern::error(tern::errc::invalid_state, "an animation without pictures");
  check(WebPAnimEncoderAdd(encoder_->made, nullptr, encoder_->time, nullptr) != 0,
        WebPAnimEncoderGetError(encoder_->made));
  WebPData data;
  WebPDataInit(&data);
  check(WebPAnimEncoderAssemble(encoder_->made, &data) != 0, WebPAnimEncoderGetError(encoder_->made));
  const std::unique_ptr<WebPData, void (*)(WebPData*)> freed(&data, &WebPDataClear);
  output_file file(path);
  file.put(data.bytes, data.size);
  file.close();
}

#else

struct animation::encoder {};

bool animations_are_built() noexcept { return false; }

animation::animation(int, int, int, float) {
  throw tern::error(tern::errc::unsupported, "this program was built without the encoder of animated pictures",
                    "install libwebp-dev and build again");
}
animation::~animation() = default;
void animation::add(const std::uint32_t*) {}
std::size_t animation::frames() const noexcept { return 0; }
void animation::write(const std::string&) {}

#endif

} // namespace apps
