// SPDX-License-Identifier: Apache-2.0
//
// Where a result goes. It is opened before sampling begins, so that a bad path fails at once and not
// after the run. A regular file is written under a temporary name beside it and renamed: a reader sees
// the old or the new content, never a part. It must never leave its temporary file behind, and never
// replace what is not a regular file: a device, a FIFO or stdout is written in place.
#pragma once

#include <pyprof/error.h>

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "base/file_owner.h"
#include "base/unique_fd.h"

namespace pyprof {

class OutputFile {
public:
    using Writer = std::function<void(std::ostream&)>;

    enum class Commit {
        kWritten,
        kClosedByReader,  // EPIPE: whoever read is gone and wants no more; nothing to complain about
    };

    // `path` "-" is stdout. For a regular file, existing or not, makes the temporary one beside it (beside
    // the link's target, where `path` is a link); anything else is opened as it is. A FIFO waits for its
    // reader here, as it does in a shell; a signal ends us then, as where a reader does not read
    // (base/patient_write.h). A file that was not there before is given to `owner`; one that is replaced keeps
    // its own.
    [[nodiscard]] static Result<OutputFile> open(const std::string& path, std::optional<FileOwner> owner = {});

    ~OutputFile();
    OutputFile(OutputFile&&) noexcept;
    OutputFile& operator=(OutputFile&&) noexcept;

    // Lets `write` fill a stream and makes that the content. May be called again: a regular file is
    // replaced each time, anything else gets the new content behind the old. The process must ignore
    // SIGPIPE.
    [[nodiscard]] Result<Commit> commit(const Writer& write);

    [[nodiscard]] bool is_in_place() const { return in_place_.get() >= 0; }
    // As the user wrote it, for messages.
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    class Temporary;

    OutputFile(std::string path, UniqueFd in_place);
    OutputFile(std::string path, std::string final_path, std::unique_ptr<Temporary> temporary,
               std::optional<FileOwner> owner);

    std::string path_;
    std::string final_path_;                // links followed; empty when written in place
    std::unique_ptr<Temporary> temporary_;  // gone after a commit, made again by the next
    std::optional<FileOwner> owner_;
    UniqueFd in_place_;
};

}  // namespace pyprof
