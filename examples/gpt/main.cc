// Trains a GPT with less device memory than it needs. README.md beside this file. Layer: example.
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model.h"
#include "options.h"
#include "text.h"

namespace {

struct Step {
  double loss = 0;
  double seconds = 0;
  double stalled_seconds = 0;  // of them, for memory
};

double stalled_seconds(const gpt::Memory& memory) {
  const auto statistics = memory.statistics();
  return statistics ? static_cast<double>(statistics->stalledNs) * 1e-9 : 0;
}

void print_statistics(const spillwayStatistics_t& s) {
  const auto field = [](const char* name, std::uint64_t value) {
    std::printf(", \"%s\": %llu", name, static_cast<unsigned long long>(value));
  };
  std::printf("{\"device_bytes\": %llu",
              static_cast<unsigned long long>(s.capacityBytes[spillwayTierDevice]));
  field("allocated_peak_bytes", s.allocatedPeakBytes);
  field("device_to_host_bytes", s.movedBytes[spillwayTierDevice][spillwayTierHost]);
  field("host_to_device_bytes", s.movedBytes[spillwayTierHost][spillwayTierDevice]);
  field("device_to_storage_bytes", s.movedBytes[spillwayTierDevice][spillwayTierStorage]);
  field("host_to_storage_bytes", s.movedBytes[spillwayTierHost][spillwayTierStorage]);
  field("storage_to_device_bytes", s.movedBytes[spillwayTierStorage][spillwayTierDevice]);
  field("saved_by_discard_bytes", s.savedByDiscardBytes);
  field("launches", s.launches);
  field("page_faults", s.pageFaults);
  field("write_faults", s.writeFaults);
  field("evictions", s.evictions);
  field("pre_evictions", s.preEvictions);
  field("prefetched_blocks", s.prefetchedBlocks);
  field("prefetches_used", s.prefetchesUsed);
  field("prefetches_wasted", s.prefetchesWasted);
  field("stalled_ns", s.stalledNs);
  field("copy_ns", s.copyNs);
  field("processor_ns", s.processorNs);
  std::printf("}");
}

void print_json(const std::vector<Step>& steps, const gpt::Memory& memory) {
  std::printf("{\"peak_bytes\": %zu, \"steps\": [", memory.allocated_bytes());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::printf("%s{\"loss\": %.9g, \"seconds\": %.6f, \"stalled_seconds\": %.6f}",
                i == 0 ? "" : ", ", steps[i].loss, steps[i].seconds, steps[i].stalled_seconds);
  }
  std::printf("], \"statistics\": ");
  if (const auto statistics = memory.statistics()) {
    print_statistics(*statistics);
  } else {
    std::printf("null");
  }
  std::printf("}\n");
}

void write_losses(const std::string& file, const std::vector<Step>& steps) {
  std::FILE* const out = std::fopen(file.c_str(), "w");
  bool good = out != nullptr;
  for (const Step& step : steps) {
    good = good && std::fprintf(out, "%a\n", step.loss) > 0;
  }
  if (out == nullptr || std::fclose(out) != 0 || !good) {
    throw std::runtime_error(file + " cannot be written; name another file with --losses");
  }
}

void train(const gpt::TrainOptions& options) {
  std::string storage;
  const auto memory = options.unlimited
                          ? std::make_unique<gpt::Memory>()
                          : std::make_unique<gpt::Memory>(space_options(options, storage));
  gpt::Text text(options.text.empty() ? gpt::default_text() : options.text, options.shape.context,
                 options.seed);
  gpt::Model model(*memory, options.shape, options.seed);
  if (!options.json) {
    std::printf("%.1f MiB in arrays\n", static_cast<double>(memory->allocated_bytes()) / 0x1p20);
  }
  std::vector<Step> steps;
  std::vector<int> tokens;
  std::vector<int> targets;
  for (int i = 0; i < options.steps; ++i) {
    text.next(tokens, targets, options.shape.batch);
    const double stalled_before = stalled_seconds(*memory);
    const auto begin = std::chrono::steady_clock::now();
    const double loss = model.run(tokens, targets);
    model.update({});
    memory->step_ended();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    steps.push_back({loss, took.count(), stalled_seconds(*memory) - stalled_before});
    if (!options.json) {
      std::printf("step %d: loss %.4f, %.0f ms\n", i + 1, loss, took.count() * 1e3);
      std::fflush(stdout);
    }
  }
  if (options.json) {
    print_json(steps, *memory);
  }
  if (!options.losses.empty()) {
    write_losses(options.losses, steps);
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const gpt::TrainOptions options = gpt::parse_options({arguments + 1, arguments + count});
    if (options.help) {
      std::fputs(gpt::usage(), stdout);
    } else {
      train(options);
    }
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "gpt: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt: %s\n", error.what());
    return 1;
  }
}
