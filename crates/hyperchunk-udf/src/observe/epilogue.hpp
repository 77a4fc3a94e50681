// Calls the functions of an analysis.
namespace hyperchunk {
static void put(std::string &out, const void *bytes, size_t size) { out.append(static_cast<const char *>(bytes), size); }
static void put_length(std::string &out, size_t length) {
    uint32_t word = uint32_t(length);
    put(out, &word, 4);
}
static void put_value(std::string &out, const value &x) {
    out.push_back(char(x.kind));
    if (x.kind == value::is_text) {
        put_length(out, x.text.size());
        out += x.text;
    } else if (x.kind == value::is_list) {
        put_length(out, x.list.size());
        for (const value &item : x.list) {
            if (item.kind > value::is_double) throw std::runtime_error("a list of results has numbers only");
            put_value(out, item);
        }
    } else
        put(out, x.kind == value::is_signed ? (const void *)&x.i : x.kind == value::is_unsigned ? (const void *)&x.u : &x.d, 8);
}
static std::string encoded(const pairs &results) {
    std::string out;
    if (results.empty()) return out;
    put_length(out, results.size());
    for (const auto &pair : results) {
        put_length(out, pair.first.size());
        out += pair.first;
        put_value(out, pair.second);
    }
    return out;
}
struct reader {
    const char *at;
    template <class T> T take() {
        T x;
        memcpy(&x, at, sizeof x);
        at += sizeof x;
        return x;
    }
    std::string text() {
        uint32_t size = take<uint32_t>();
        at += size;
        return std::string(at - size, size);
    }
    value one() {
        switch (take<uint8_t>()) {
        case 0: return value(take<int64_t>());
        case 1: return value(take<uint64_t>());
        case 2: return value(take<double>());
        case 3: return value(text());
        }
        std::vector<value> list(take<uint32_t>());
        for (value &item : list) item = one();
        return value(list);
    }
    pairs all() {
        pairs results;
        for (uint32_t left = take<uint32_t>(); left; left--) {
            std::string key = text();
            results[key] = one();
        }
        return results;
    }
};
} // namespace hyperchunk

void dynamic_dataset() {
    const char *control = lib.getData<char>("control");
    std::string results;
    if (control[0] == 0) {
        hyperchunk::box box{lib.getOffset("data"), lib.getDims("data")};
        std::string dataset(control + 1, lib.getDims("control")[0] - 1);
        hyperchunk::array array(lib.getData<char>("data"), lib.getType("data"), box.size());
        results = hyperchunk::encoded(on_write(dataset, box, array));
    } else {
        if (!merge) throw std::runtime_error("the source defines no function merge");
        uint32_t first;
        memcpy(&first, control + 1, 4);
        hyperchunk::reader a{control + 5}, b{control + 5 + first};
        results = hyperchunk::encoded(merge(a.all(), b.all()));
    }
    size_t room = lib.getDims("results")[0] - 4;
    if (results.size() > room) {
        char message[96];
        snprintf(message, sizeof message, "the results have %zu bytes; the limit is %zu", results.size(), room);
        throw std::runtime_error(message);
    }
    char *out = lib.getData<char>("results");
    memcpy(out + 4, results.data(), results.size());
    uint32_t length = uint32_t(results.size());
    memcpy(out, &length, 4);
}
