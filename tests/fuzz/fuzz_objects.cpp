// SPDX-License-Identifier: Apache-2.0
//
// Objects of any bytes: the readers end, allocate no more than what is there, and stay in their bounds.
// Input: layout (1), then the memory at kBase; pointers within it are written as they are, so the seeds
// lead the way. Everything else is unmapped.
#include "python/layouts.h"
#include "python/objects.h"
#include "python/thread_names.h"
#include "support/fake_memory.h"

using namespace pyprof;

namespace {

constexpr Address kBase{0x10000};

// The rows, and shapes of later versions that no row has.
Layout layout_of_input(unsigned choice) {
    Layout layout = *layout_of(3, static_cast<int>(8 + choice % 5));
    if (choice % 8 >= 5) {  // inline values behind the object, as from 3.13 on
        layout.instance_values = InstanceValues::kInline;
        layout.dict.values_data = 8;
        layout.unicode.wide_interned = choice % 8 == 7;
    }
    return layout;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kMostBytes = 16 * 1024;
    if (size < 2 || size > kMostBytes) return 0;
    const Layout layout = layout_of_input(data[0]);
    test::FakeMemory memory;
    const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
    memory.write(kBase, bytes);
    memory.unmap(kBase + bytes.size(), test::FakeMemory::kPageSize);

    for (std::size_t offset = 64; offset < bytes.size() && offset < 256; offset += 64) {
        const Address object = kBase + offset;
        if (const auto text = read_unicode(memory, layout, object, 100))
            check(text->size() <= 403, "a cut string");
        if (const auto content = read_bytes_object(memory, layout, object, 1000))
            check(content->size() <= 1000, "bytes");
        if (const auto items = read_tuple(memory, layout, object, 100))
            check(items->size() <= 100, "a tuple");
        (void)read_long(memory, layout, object);
        (void)read_longs(memory, layout, {object, object + 8});
        (void)type_name(memory, layout, object);
        if (const auto entries = read_dict(memory, layout, object, 500))
            check(entries->size() <= 500, "a dict");
        (void)find_in_dict(memory, layout, object, "threading");
        (void)read_attribute(memory, layout, object, "_name");
    }
    // An interpreter state whose field for sys.modules lies at the start of the input.
    const auto modules_at = static_cast<std::uint64_t>(layout.interpreter.imports_modules);
    ThreadNames names(layout, kBase - modules_at);
    (void)names.refresh(memory);
    (void)names.find(memory, 0x7f0000001000);
    return 0;
}
