// The program that `spillway run` and `spillway record` start: what it leaves and where, who gets
// which signal, and how it ended. Layer: cli.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/run/run_environment.h"
#include "platform/common/process/descriptor.h"

namespace spillway {

// A folder of our own for what the program's processes leave; gone with the object. What runs that
// were killed have left is cleared up when it is made.
class RecordFolder {
 public:
  RecordFolder();
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  ~RecordFolder();
  // kIo if there is none.
  [[nodiscard]] Status made() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor lock_;  // as long as somebody has it, the folder belongs to a run that goes on
};

// From now on what ends this process ends the program, and then we say what happened.
void pass_on_signals();

struct ProgramToRun {
  std::vector<std::string> command;
  Environment environment;
  std::string records;  // the folder in which it leaves what it shows of itself
  int out = -1;         // what becomes its standard output; -1: ours
};
struct ProgramEnd {
  int status = 0;       // as a shell tells it
  bool started = true;  // otherwise why not has been said
};
// Starts it and waits for its end; a signal that ended it is said in one line.
[[nodiscard]] Result<ProgramEnd> run_program(const ProgramToRun& program);

}  // namespace spillway
