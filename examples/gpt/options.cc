// See options.h.
#include "options.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>

namespace gpt {
namespace {

// Multiplied with counts of others, this still fits.
constexpr Index kLargest = 1 << 16;

template <typename Number>
Number number(const std::string& name, const std::string& text, Number least, Number most) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    throw std::invalid_argument(name + " '" + text + "' is not a number from " +
                                std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

double bytes(const std::string& name, const std::string& text) {
  double value = -1;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const std::string unit(end, last);
  const double factor = unit.empty()    ? 1
                        : unit == "KiB" ? 0x1p10
                        : unit == "MiB" ? 0x1p20
                        : unit == "GiB" ? 0x1p30
                                        : -1;
  // Written so that what is no number at all fails, too.
  if (error != std::errc{} || factor < 0 || !(value >= 0 && value * factor < 0x1p50)) {
    throw std::invalid_argument(name + " '" + text + "' is not a size such as 100MiB");
  }
  return value * factor;
}

void check(const TrainOptions& options) {
  if (options.shape.width % options.shape.heads != 0) {
    throw std::invalid_argument("--width must be a multiple of --heads");
  }
  if (options.unlimited && !(options.device_memory + options.host_memory + options.storage +
                             options.policy + options.link_bandwidth)
                                .empty()) {
    throw std::invalid_argument("--unlimited is without Spillway, and takes none of its options");
  }
}

}  // namespace

TrainOptions parse_options(const std::vector<std::string>& arguments) {
  TrainOptions options;
  using Take = std::function<void(const std::string&, const std::string&)>;
  const auto size = [](Index& into) -> Take {
    return [&into](const auto& name, const auto& text) {
      into = number<Index>(name, text, 1, kLargest);
    };
  };
  const auto string = [](std::string& into) -> Take {
    return [&into](const auto&, const auto& text) { into = text; };
  };
  const std::map<std::string, Take> with_value{
      {"--layers", size(options.shape.layers)},
      {"--width", size(options.shape.width)},
      {"--heads", size(options.shape.heads)},
      {"--context", size(options.shape.context)},
      {"--batch", size(options.shape.batch)},
      {"--steps", [&](const auto& name,
                      const auto& text) { options.steps = number<int>(name, text, 1, 1 << 30); }},
      {"--seed",
       [&](const auto& name, const auto& text) {
         options.seed = number<std::uint64_t>(name, text, 0, ~std::uint64_t{0});
       }},
      {"--text", [&](const auto&, const auto& text) { options.text.push_back(text); }},
      {"--device-memory", string(options.device_memory)},
      {"--host-memory", string(options.host_memory)},
      {"--storage", string(options.storage)},
      {"--policy", string(options.policy)},
      {"--link-bandwidth", string(options.link_bandwidth)},
      {"--losses", string(options.losses)}};
  const std::map<std::string, bool*> flags{
      {"--unlimited", &options.unlimited}, {"--json", &options.json}, {"--help", &options.help}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (const auto flag = flags.find(name); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    const auto option = with_value.find(name);
    if (option == with_value.end() || i + 1 == arguments.size()) {
      throw std::invalid_argument(option == with_value.end()
                                      ? "'" + name + "' is no option; --help lists them"
                                      : name + " needs a value");
    }
    option->second(name, arguments[++i]);
  }
  check(options);
  return options;
}

const char* usage() {
  return "gpt [OPTIONS]: trains a GPT on the bytes of text files, with a memory budget\n"
         "  --layers 4 --width 256 --heads 4 --context 128 --batch 4   the model and a step\n"
         "  --steps 10 --seed 1\n"
         "  --text FILE           may be there several times (Spillway's documentation)\n"
         "  --device-memory SIZE --host-memory SIZE --storage PATH[:SIZE]   the tiers\n"
         "  --policy NAME         deepum, g10, base_uvm, ...; `spillway run --help` lists them\n"
         "  --link-bandwidth SIZE bytes a second between device and host memory\n"
         "  --unlimited           plain memory, without Spillway\n"
         "  --losses FILE         the loss of each step, one hexadecimal number a line\n"
         "  --json                the run as one object\n";
}

spillway::Options space_options(const TrainOptions& options, std::string& storage) {
  spillway::Options space;
  const auto set = [](std::uint64_t& into, const char* name, const std::string& text) {
    if (!text.empty()) {
      into = static_cast<std::uint64_t>(bytes(name, text));
    }
  };
  set(space.deviceBytes, "--device-memory", options.device_memory);
  set(space.hostBytes, "--host-memory", options.host_memory);
  if (!options.storage.empty()) {
    const std::size_t colon = options.storage.rfind(':');
    storage = options.storage.substr(0, colon);
    space.storagePath = storage.c_str();
    space.storageBytes = 0;
    if (colon != std::string::npos) {
      set(space.storageBytes, "--storage", options.storage.substr(colon + 1));
    }
  }
  if (!options.policy.empty()) {
    space.policy = options.policy.c_str();
  }
  if (!options.link_bandwidth.empty()) {
    space.linkBytesPerS = bytes("--link-bandwidth", options.link_bandwidth);
  }
  return space;
}

}  // namespace gpt
