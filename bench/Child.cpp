#include "Child.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

extern char** environ;

namespace bench {
namespace {

[[noreturn]] void stop(const std::string& what) {
  std::cerr << what << "\n";
  std::exit(1);
}

} // namespace

std::string runSelf(const std::vector<std::string>& words) {
  std::string self = "/proc/self/exe";
  std::vector<std::string> owned = words;
  std::vector<char*> arguments{self.data()};
  for (auto& word : owned) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);

  int ends[2];
  if (pipe(ends) != 0) {
    stop("pipe failed");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  pid_t child = 0;
  const int failed = posix_spawn(
      &child, self.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed) {
    stop("the program cannot be started again");
  }
  std::string printed;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    printed.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) {
    stop("the program failed when it was started again: " + printed);
  }
  return printed;
}

} // namespace bench
