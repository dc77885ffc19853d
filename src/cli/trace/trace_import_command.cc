// Files of other tools as traces, with what they cannot say. Layer: cli.
#include "cli/trace/trace_import_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/trace/trace_output.h"
#include "trace/import.h"

namespace spillway {
namespace {

struct ImportRequest {
  std::string file;
  std::optional<std::string> kineto;
  std::optional<std::uint64_t> iteration;
  std::string output;
  bool json = false;
};

std::string as_text(const Imported& imported, const ImportRequest& request) {
  std::string text = fmt::format("{}: {}, {}\n{}: {} kernels, {} tensors\n", request.file,
                                 describe(imported.format), imported.iteration, request.output,
                                 imported.trace.kernels.size(), imported.trace.tensors.size());
  text += "What such a file does not say, and what the trace has instead:\n";
  for (const std::string& note : imported.notes) {
    text += fmt::format("- {}\n", note);
  }
  return text;
}

std::string as_json(const Imported& imported, const ImportRequest& request) {
  const nlohmann::ordered_json json{
      {"file", request.file},
      {"format", describe(imported.format)},
      {"iteration", imported.iteration},
      {"trace", request.output},
      {"kernels", imported.trace.kernels.size()},
      {"tensors", imported.trace.tensors.size()},
      {"notes", imported.notes},
  };
  // A file's name may hold any bytes.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status import_file(const ImportRequest& request) {
  if (Status named = check_trace_name(request.output); !named) {
    return named;
  }
  std::optional<std::filesystem::path> kineto;
  if (request.kineto) {
    kineto = *request.kineto;
  }
  const Result<Imported> imported =
      import_trace(std::filesystem::path(request.file), kineto, {.iteration = request.iteration});
  if (!imported) {
    return tl::unexpected(imported.error());
  }
  if (Status written = write_by_name(imported->trace, request.output); !written) {
    return written;
  }
  fmt::print("{}", request.json ? as_json(*imported, request) : as_text(*imported, request));
  return {};
}

}  // namespace

void add_trace_import_command(CLI::App& trace, const std::function<void(const Status&)>& finish) {
  auto request = std::make_shared<ImportRequest>();
  CLI::App* command = trace.add_subcommand(
      "import", "Make a trace of a file that PyTorch's profilers have written");
  command->footer(
      "Chakra execution traces (ExecutionTraceObserver), Kineto traces (export_chrome_trace,\n"
      "profile_memory and record_shapes on; .json or .json.gz) and memory snapshots of CUDA\n"
      "(_dump_snapshot, which is read without running it). The format is seen from\n"
      "the file. Without --iteration the last ProfilerStep#N is taken; if there is none, what\n"
      "ends with the last step of an optimizer; if there is none, the whole file. The command\n"
      "prints what the file does not say.\n\n"
      "Examples:\n"
      "  spillway trace import trace.json.gz -o step.swt\n"
      "  spillway trace import chakra.json --with kineto.json -o step.swt\n"
      "  spillway trace import snapshot.pickle --iteration 2 -o step.swt");
  command->add_option("file", request->file, "The file to read")->required()->type_name("FILE");
  command
      ->add_option("--with", request->kineto,
                   "Kineto trace of the same run, for the times of a Chakra execution trace")
      ->type_name("FILE");
  command
      ->add_option(
          "--iteration", request->iteration,
          "Which iteration to take: N of ProfilerStep#N, or if the file has no such steps, "
          "counted from 0")
      ->type_name("N");
  command->add_option("-o,--output", request->output, "File to write: .swt, .json or .json.gz")
      ->required()
      ->type_name("FILE");
  command->add_flag("--json", request->json, "One JSON object on one line");
  command->callback([request, finish] { finish(import_file(*request)); });
}

}  // namespace spillway
