// SPDX-License-Identifier: Apache-2.0
#include <tern/base/log.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace tern {
namespace {

constexpr std::array<std::string_view, 6> level_names{"trace", "debug", "info", "warning", "error", "off"};

constinit std::atomic<rank_provider> present_provider{nullptr};

spdlog::level::level_enum native(log_level level) noexcept {
  switch (level) {
  case log_level::trace:
    return spdlog::level::trace;
  case log_level::debug:
    return spdlog::level::debug;
  case log_level::info:
    return spdlog::level::info;
  case log_level::warning:
    return spdlog::level::warn;
  case log_level::error:
    return spdlog::level::err;
  case log_level::off:
    break;
  }
  return spdlog::level::off;
}

/// `%*` in the pattern: " r3", or nothing outside any rank.
class rank_flag final : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    const rank_provider provider = present_provider.load(std::memory_order_relaxed);
    const int rank = provider ? provider() : -1;
    if (rank < 0) return;
    const std::string text = " r" + std::to_string(rank);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<rank_flag>(); }
};

/// spdlog's own sink goes through stdio, which may split lines between processes; one `write` a
/// line does not.
class stderr_sink final : public spdlog::sinks::base_sink<std::mutex> {
protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const char* data = line.data();
    for (std::size_t left = line.size(); left > 0;) {
      const ssize_t written = ::write(STDERR_FILENO, data, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      data += written;
      left -= static_cast<std::size_t>(written);
    }
  }
  void flush_() override {}
};

spdlog::logger& logger() {
  // Never destroyed, so that other static objects' destructors may log.
  static spdlog::logger& instance = *[] {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<rank_flag>('*').set_pattern("[tern %H:%M:%S.%e%* %l] %v");
    auto* made = new spdlog::logger("tern", std::make_shared<stderr_sink>());
    made->set_formatter(std::move(formatter));
    made->set_level(spdlog::level::info);
    made->set_error_handler([](const std::string&) {}); // nowhere left to report to
    return made;
  }();
  return instance;
}

} // namespace

std::string_view name_of(log_level level) noexcept {
  const auto i = static_cast<std::size_t>(level);
  return i < level_names.size() ? level_names[i] : "unknown";
}

log_level log_level_from(std::string_view name) {
  for (std::size_t i = 0; i < level_names.size(); ++i)
    if (level_names[i] == name) return static_cast<log_level>(i);
  throw error(errc::invalid_argument, "\"" + std::string(name) + "\" is no log level",
              "use trace, debug, info, warning, error or off");
}

void log(log_level level, std::string_view text) noexcept {
  if (level == log_level::off) return;
  const int saved = errno; // logging is for telling about failures, not for changing them
  try {
    logger().log(native(level), spdlog::string_view_t(text.data(), text.size()));
  } catch (...) { // out of memory: the line is dropped
  }
  errno = saved;
}

bool log_enabled(log_level level) noexcept {
  try {
    return level != log_level::off && logger().should_log(native(level));
  } catch (...) {
    return false;
  }
}

void set_log_level(log_level level) noexcept {
  try {
    logger().set_level(native(level));
  } catch (...) {
  }
}

rank_provider set_rank_provider(rank_provider provider) noexcept { return present_provider.exchange(provider); }

} // namespace tern
