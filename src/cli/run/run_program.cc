// See run_program.h.
#include "cli/run/run_program.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace spillway {
namespace {

std::string found_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  if (name.find('/') != std::string::npos || path == nullptr) {
    return name;
  }
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return name;
}

// Whether it names a dynamic linker, which is what loads libraries.
bool has_interpreter(std::ifstream& file, const Elf64_Ehdr& header) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof(part)));
    if (!file.read(reinterpret_cast<char*>(&part), sizeof(part))) {  // NOLINT: bytes of a file
      return true;
    }
    if (part.p_type == PT_INTERP) {
      return true;
    }
  }
  return false;
}

// "#! INTERPRETER ARGUMENT": empty for what is no script.
std::string interpreter_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (file.get() != '#' || file.get() != '!' || !std::getline(file, line)) {
    return {};
  }
  std::istringstream words(line);
  std::string interpreter;
  words >> interpreter;
  return interpreter;
}

}  // namespace

std::string why_not_preloaded(const std::string& name) {
  std::string path = found_in_path(name);
  if (const std::string interpreter = interpreter_of(path); !interpreter.empty()) {
    path = interpreter;
  }
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) {
    return {};
  }
  if ((about.st_mode & (S_ISUID | S_ISGID)) != 0 && ::geteuid() != about.st_uid) {
    return fmt::format(
        "{} runs with the rights of its owner (set-user-id), so the system loads no "
        "library of ours into it",
        path);
  }
  if (::geteuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
    return fmt::format(
        "{} has capabilities of its own (setcap), so the system loads no library of ours into it",
        path);
  }
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||  // NOLINT: bytes of a file
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return {};
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return fmt::format("{} is a program for 32 bits, and Spillway is none", path);
  }
  return has_interpreter(file, header)
             ? std::string()
             : fmt::format("{} is linked statically, so no library can be loaded into it", path);
}

std::string flag_that_keeps_hook_out(const std::vector<std::string>& command) {
  const std::string& program = command.front();
  if (!program.substr(program.rfind('/') + 1).starts_with("python")) {
    return {};
  }
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word.size() < 2 || word[0] != '-' || word[1] == '-') {
      return {};  // the script's from here on
    }
    for (const char flag : word.substr(1)) {
      if (flag == 'E' || flag == 'I' || flag == 'S') {
        return fmt::format("-{}", flag);
      }
      if (flag == 'c' || flag == 'm') {
        return {};
      }
      if (flag == 'W' || flag == 'X') {  // takes the rest, or the next word
        i += word.back() == flag ? 1U : 0U;
        break;
      }
    }
  }
  return {};
}

}  // namespace spillway
