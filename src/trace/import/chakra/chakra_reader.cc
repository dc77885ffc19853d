// The nodes of a Chakra execution trace, strictly by its schema. Layer: trace.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "trace/import/chakra/chakra_file.h"
#include "trace/import/json_elements.h"
#include "trace/import/storage_span.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "1.1.1-chakra.";

// Which of the arguments "(Tensor self, *, Tensor(a!) out) -> ..." the schema says are changed.
std::vector<bool> changed_arguments(std::string_view schema) {
  std::vector<bool> changed;
  const std::size_t open = schema.find('(');
  if (open == std::string_view::npos) {
    return changed;
  }
  std::size_t depth = 0;
  std::string argument;
  const auto end_argument = [&] {
    const std::size_t text = argument.find_first_not_of(' ');
    if (text != std::string::npos && argument.substr(text) != "*") {
      changed.push_back(argument.find("!)") != std::string::npos ||
                        argument.find("! ->") != std::string::npos);
    }
    argument.clear();
  };
  for (const char c : schema.substr(open + 1)) {
    if (c == ',' && depth == 0) {
      end_argument();
      continue;
    }
    if (c == ')' && depth == 0) {
      break;
    }
    depth += c == '(' || c == '[' ? 1 : 0;
    depth -= (c == ')' || c == ']') && depth > 0 ? 1 : 0;
    argument += c;
  }
  end_argument();
  return changed;
}

class ChakraReader {
 public:
  Status node(const json& element) {
    if (file_.nodes.size() >= kMaxKernels) {
      return make_error(ErrorCode::kInvalidInput, "more than {} nodes", kMaxKernels);
    }
    const auto id = whole_of(element, "id");
    const auto parent = whole_of(element, "ctrl_deps");
    const std::string* name = text_of(element, "name");
    const json* inputs = object_of(element, "inputs");
    const json* outputs = object_of(element, "outputs");
    const json* attributes = list_of(element, "attrs");
    if (!id || !parent || name == nullptr || inputs == nullptr || outputs == nullptr ||
        attributes == nullptr) {
      return make_error(ErrorCode::kInvalidInput,
                        "a node has id, name, ctrl_deps, inputs, outputs and attrs");
    }
    ChakraNode node;
    node.id = *id;
    node.parent = *parent;
    node.first_use = file_.uses.size();
    std::string_view schema;
    for (const json& attribute : *attributes) {
      const std::string* of = text_of(attribute, "name");
      if (of == nullptr) {
        return make_error(ErrorCode::kInvalidInput, "attrs: an attribute without a name");
      }
      const std::string* text = text_of(attribute, "value");
      if (*of == "op_schema" && text != nullptr) {
        schema = *text;
      } else if (*of == "kernel_backend" && text != nullptr) {
        node.is_kernel = !text->empty();
      } else if (*of == "rf_id") {
        node.rf_id = whole_of(attribute, "value").value_or(0);
      }
    }
    node.has_schema = !schema.empty();
    return file_.names.add(*name)
        .and_then([&](const std::uint32_t number) {
          node.name = number;
          return values(*inputs, "inputs", changed_arguments(schema), node.is_kernel);
        })
        .and_then([&] {
          node.inputs = static_cast<std::uint32_t>(file_.uses.size() - node.first_use);
          return values(*outputs, "outputs", {}, false);
        })
        .map([&] {
          node.outputs =
              static_cast<std::uint32_t>(file_.uses.size() - node.first_use - node.inputs);
          file_.nodes.push_back(node);
        });
  }

  Status field(const std::string& name, const json& value) {
    if (name == "schema") {
      const std::string* text = value.get_ptr<const std::string*>();
      if (text == nullptr || !text->starts_with(kSchema)) {
        return make_error(ErrorCode::kInvalidInput,
                          "schema: not one that this program reads; it reads {}0.0.4", kSchema);
      }
      has_schema_ = true;
    }
    return {};
  }

  Result<ChakraFile> finish() {
    if (!has_schema_) {
      return make_error(ErrorCode::kInvalidInput, "the document: no \"schema\"");
    }
    std::vector<ChakraNode>& nodes = file_.nodes;
    std::sort(nodes.begin(), nodes.end(),
              [](const ChakraNode& a, const ChakraNode& b) { return a.id < b.id; });
    const auto twice =
        std::adjacent_find(nodes.begin(), nodes.end(),
                           [](const ChakraNode& a, const ChakraNode& b) { return a.id == b.id; });
    if (twice != nodes.end()) {
      return make_error(ErrorCode::kInvalidInput, "nodes: two have the id {}", twice->id);
    }
    return std::move(file_);
  }

 private:
  // The tensors of {"values": [...], "shapes": [...], "types": [...], "strides": [...]}.
  Status values(const json& lists, std::string_view which, const std::vector<bool>& changed,
                bool all_changed) {
    const json* values = list_of(lists, "values");
    const json* shapes = list_of(lists, "shapes");
    const json* types = list_of(lists, "types");
    const json* strides = list_of(lists, "strides");
    if (values == nullptr || shapes == nullptr || types == nullptr || strides == nullptr ||
        shapes->size() != values->size() || types->size() != values->size() ||
        strides->size() != values->size()) {
      return make_error(ErrorCode::kInvalidInput,
                        "{}: values, shapes, types and strides must be lists of one length", which);
    }
    for (std::size_t i = 0; i < values->size(); ++i) {
      const auto* type = (*types)[i].get_ptr<const std::string*>();
      if (type == nullptr) {
        return make_error(ErrorCode::kInvalidInput, "{}.types[{}]: not text", which, i);
      }
      if (type->find("Tensor(") == std::string::npos) {
        continue;
      }
      const bool is_changed = all_changed || (i < changed.size() && changed[i]);
      if (const Status status = value((*values)[i], (*shapes)[i], (*strides)[i], is_changed);
          !status) {
        return make_error(ErrorCode::kInvalidInput, "{}.values[{}]: {}", which, i,
                          status.error().message);
      }
    }
    return {};
  }

  // A tensor, or a list of tensors and other things; the depth is bounded by that of an element.
  Status value(const json& what, const json& shape, const json& strides, bool changed) {
    if (!what.is_array()) {
      return {};  // "<None>" in a list
    }
    if (what.size() == 6 && what[5].is_string()) {
      return tensor(what, shape, strides, changed);
    }
    if (!shape.is_array() || !strides.is_array() || shape.size() != what.size() ||
        strides.size() != what.size()) {
      return make_error(ErrorCode::kInvalidInput,
                        "neither a tensor nor a list with a shape for each tensor");
    }
    for (std::size_t i = 0; i < what.size(); ++i) {
      if (Status status = value(what[i], shape[i], strides[i], changed); !status) {
        return status;
      }
    }
    return {};
  }

  // [tensor, storage, offset, elements, bytes of an element, device]
  Status tensor(const json& what, const json& shape, const json& strides, bool changed) {
    const auto storage = whole(what[1]);
    const auto offset = whole(what[2]);
    const auto elements = whole(what[3]);
    const auto element_bytes = whole(what[4]);
    if (!whole(what[0]) || !storage || !offset || !elements || !element_bytes) {
      return make_error(ErrorCode::kInvalidInput,
                        "a tensor is five numbers, not negative, and a device");
    }
    if (*storage == 0) {
      return {};  // undefined, or of a kind without storage
    }
    if (file_.uses.size() >= kMaxImportedInputs) {
      return make_error(ErrorCode::kInvalidInput, "more than {} inputs and outputs",
                        kMaxImportedInputs);
    }
    const auto bytes = storage_span(shape, strides, *elements, *offset, *element_bytes);
    if (!bytes) {
      return tl::unexpected(bytes.error());
    }
    const auto device = file_.devices.add(what[5].get_ref<const std::string&>());
    if (!device) {
      return tl::unexpected(device.error());
    }
    file_.uses.push_back({*storage, *bytes, *device, changed});
    return {};
  }

  ChakraFile file_;
  bool has_schema_ = false;
};

}  // namespace

Result<ChakraFile> read_chakra(ByteSource& text) {
  ChakraReader reader;
  const Status status = read_json_elements(
      text, "nodes", [&](const json& element) { return reader.node(element); },
      [&](const std::string& name, const json& value) { return reader.field(name, value); });
  if (!status) {
    return tl::unexpected(status.error());
  }
  return reader.finish();
}

}  // namespace spillway
