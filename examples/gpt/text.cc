// See text.h.
#include "text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace gpt {

Text::Text(const std::vector<std::string>& files, Index context, std::uint64_t seed)
    : context_(static_cast<std::size_t>(context)), random_(seed) {
  for (const std::string& name : files) {
    std::ifstream in(name, std::ios::binary);
    bytes_.append(std::istreambuf_iterator<char>(in), {});
    if (!in) {
      throw std::runtime_error(name + " cannot be read; name files with --text");
    }
  }
  if (bytes_.size() <= context_) {
    throw std::runtime_error("the text has " + std::to_string(bytes_.size()) +
                             " bytes, and a sequence needs more than " + std::to_string(context_) +
                             "; name files with --text");
  }
}

void Text::next(std::vector<int>& tokens, std::vector<int>& targets, Index batch) {
  tokens.clear();
  targets.clear();
  for (Index i = 0; i < batch; ++i) {
    const std::size_t start = random_() % (bytes_.size() - context_);
    for (std::size_t at = start; at < start + context_; ++at) {
      tokens.push_back(static_cast<unsigned char>(bytes_[at]));
      targets.push_back(static_cast<unsigned char>(bytes_[at + 1]));
    }
  }
}

std::vector<std::string> default_text() {
  namespace fs = std::filesystem;
  const fs::path project = GPT_PROJECT_DIR;
  std::vector<std::string> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(project / "docs", none)) {
    if (entry.path().extension() == ".md") {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  if (fs::exists(project / "README.md", none)) {
    files.insert(files.begin(), (project / "README.md").string());
  }
  return files;
}

}  // namespace gpt
