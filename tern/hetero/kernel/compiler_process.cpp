// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/kernel/compiler_process.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace tern::hetero::detail {

namespace fs = std::filesystem;

work_folder::work_folder() {
  std::error_code none;
  std::string name = (fs::temp_directory_path(none) / "tern-compile-XXXXXX").string();
  if (!::mkdtemp(name.data()))
    throw error(errc::io, "cannot make a folder " + name + " to compile kernels in: " + std::strerror(errno),
                "TMPDIR says where temporary files are");
  path = name;
}

work_folder::~work_folder() {
  std::error_code none;
  fs::remove_all(path, none);
}

std::string contents_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return std::move(all).str();
}

int run_program(const std::vector<std::string>& words, const fs::path& said, const fs::path& input) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str())); // it is not written to
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 0, input.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, argv[0], &files, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return 127;
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

std::string version_of_program(const std::string& name) {
  const work_folder folder;
  if (run_program({name, "--version"}, folder.path / "said") != 0) return {};
  std::string text = contents_of(folder.path / "said");
  text.resize(std::min(text.size(), text.find('\n')));
  return text;
}

} // namespace tern::hetero::detail
