// See captured_iteration.h.
#include "runtime/record/captured_iteration.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trace/visitor.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

// Each name once, by its number.
class Names {
 public:
  std::size_t number_of(const std::string& name) {
    const auto [at, added] = numbers_.emplace(name, all_.size());
    if (added) {
      all_.push_back(name);
    }
    return at->second;
  }
  [[nodiscard]] json all() const { return all_; }

 private:
  std::vector<std::string> all_;
  std::unordered_map<std::string, std::size_t> numbers_;
};

// Control characters end no line of a table.
std::string mended(std::string name) {
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    c = byte < ' ' || byte == 0x7f ? '?' : c;
  }
  constexpr std::size_t kLongest = 4096;
  if (name.size() > kLongest) {
    name.resize(kLongest);
    while (!name.empty() && (static_cast<unsigned char>(name.back()) & 0xc0U) == 0x80U) {
      name.pop_back();  // the rest of a character
    }
    if (!name.empty()) {
      name.pop_back();
    }
  }
  return name;
}

json kernels_of(const std::vector<Kernel>& kernels, Names& names) {
  json all = json::array();
  for (const Kernel& kernel : kernels) {
    all.push_back({names.number_of(kernel.name), kernel.duration_ns, kernel.reads, kernel.writes,
                   kernel.synchronizes});
  }
  return all;
}

std::vector<Kernel> kernels_in(const json& all, const std::vector<std::string>& names) {
  std::vector<Kernel> kernels;
  for (const json& one : all) {
    Kernel kernel;
    kernel.name = names.at(one.at(0).get<std::size_t>());
    kernel.duration_ns = one.at(1).get<TimeNs>();
    kernel.reads = one.at(2).get<std::vector<TensorId>>();
    kernel.writes = one.at(3).get<std::vector<TensorId>>();
    kernel.synchronizes = one.at(4).get<bool>();
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

// In place or not is one operator: autograd's additions differ in that while operands are told.
std::string_view same_name(std::string_view name) {
  if (name.starts_with("aten::") && name.ends_with('_')) {
    name.remove_suffix(1);
  }
  return name;
}

// "The third addmm" of one iteration is that of the other.
void take_times(Trace& trace, const std::vector<Kernel>& times) {
  std::map<std::string_view, std::vector<TimeNs>> known;
  for (const Kernel& kernel : times) {
    known[same_name(kernel.name)].push_back(kernel.duration_ns);
  }
  std::map<std::string_view, std::size_t> counts;
  for (Kernel& kernel : trace.kernels) {
    const std::string_view name = same_name(kernel.name);
    const std::size_t number = counts[name]++;
    const auto found = known.find(name);
    if (found != known.end() && number < found->second.size()) {
      kernel.duration_ns = found->second[number];
    }
    kernel.duration_ns = std::max<TimeNs>(kernel.duration_ns, 1);
  }
}

void add(std::vector<TensorId>& ids, const std::vector<TensorId>& more) {
  for (const TensorId id : more) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
      ids.push_back(id);
    }
  }
}

void put_together(Trace& trace, const std::vector<bool>& parts) {
  std::vector<Kernel> whole;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    Kernel& kernel = trace.kernels[i];
    if (i >= parts.size() || !parts[i] || whole.empty()) {
      whole.push_back(std::move(kernel));
      continue;
    }
    Kernel& before = whole.back();
    before.duration_ns += kernel.duration_ns;
    before.synchronizes |= kernel.synchronizes;
    add(before.reads, kernel.reads);
    add(before.writes, kernel.writes);
  }
  trace.kernels = std::move(whole);
}

// A result that outlives the iteration, as the last one's did, comes anew with each.
void end_results(Trace& trace) {
  std::vector<bool> used(trace.tensors.size());
  for (const Kernel& kernel : trace.kernels) {
    for (const TensorId id : kernel.reads) {
      used[id] = true;
    }
    for (const TensorId id : kernel.writes) {
      trace.tensors[id].persistent = trace.tensors[id].persistent && used[id];
      used[id] = true;
    }
  }
}

// Who writes what is there already may leave a part of it as it was.
void read_what_is_there(Trace& trace) {
  std::vector<bool> there(trace.tensors.size());
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    there[id] = trace.tensors[id].persistent;
  }
  for (Kernel& kernel : trace.kernels) {
    for (const TensorId id : kernel.writes) {
      if (there[id] && !reads(kernel, id)) {
        kernel.reads.push_back(id);
      }
    }
    for (const auto* const ids : {&kernel.reads, &kernel.writes}) {
      for (const TensorId id : *ids) {
        there[id] = true;
      }
    }
  }
}

}  // namespace

std::size_t whole_launches(const CapturedIteration& captured) {
  if (!captured.used) {
    return 0;
  }
  const std::size_t kernels = captured.used->kernels.size();
  const std::size_t told = std::min(kernels, captured.parts.size());
  const auto begin = captured.parts.begin();
  return kernels - static_cast<std::size_t>(
                       std::count(begin, begin + static_cast<std::ptrdiff_t>(told), true));
}

std::string to_json(const CapturedIteration& captured) {
  json object{{"version", kVersion},
              {"launches", captured.launches},
              {"iterations", captured.iterations},
              {"timed", captured.timed},
              {"device", captured.device}};
  Names names;
  if (captured.used) {
    json tensors = json::array();
    for (const Tensor& tensor : captured.used->tensors) {
      tensors.push_back({tensor.bytes, tensor.persistent});
    }
    object["tensors"] = std::move(tensors);
    object["kernels"] = kernels_of(captured.used->kernels, names);
    object["tells_changes"] = captured.tells_changes;
    object["parts"] = captured.parts;
    object["times"] = kernels_of(captured.times, names);
    object["names"] = names.all();
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<CapturedIteration> parse_captured_iteration(const std::string& text) {
  try {
    const json object = json::parse(text);
    if (object.at("version") != kVersion) {
      return std::nullopt;
    }
    CapturedIteration captured;
    captured.launches = object.at("launches");
    captured.iterations = object.at("iterations");
    captured.timed = object.at("timed");
    captured.device = object.at("device");
    if (object.contains("kernels")) {
      auto names = object.at("names").get<std::vector<std::string>>();
      std::transform(names.begin(), names.end(), names.begin(), mended);
      Trace used;
      for (const json& tensor : object.at("tensors")) {
        used.tensors.push_back(
            {.bytes = tensor.at(0), .persistent = tensor.at(1), .scratch = false});
      }
      used.kernels = kernels_in(object.at("kernels"), names);
      captured.tells_changes = object.at("tells_changes");
      captured.parts = object.at("parts").get<std::vector<bool>>();
      captured.times = kernels_in(object.at("times"), names);
      captured.used = std::move(used);
    }
    return captured;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

Trace trace_of(const CapturedIteration& captured) {
  Trace trace = captured.used.value_or(Trace{});
  trace.device = captured.device;
  take_times(trace, captured.times);
  put_together(trace, captured.parts);
  if (captured.tells_changes) {
    end_results(trace);
  }
  read_what_is_there(trace);
  mark_scratch(trace);
  return trace;
}

}  // namespace spillway
