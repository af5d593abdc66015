#include "store/postgres_columns.h"

#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "store/postgres_text.h"

namespace interlock::store {

// ---- writing ------------------------------------------------------------------------------------------------------

PostgresArray::PostgresArray(ColumnForm form, std::size_t count) {
    constexpr std::array types{postgres_int8, postgres_text, postgres_bytea};
    bytes_.reserve(20 + count * 20);
    for (const std::uint32_t word : {std::uint32_t{1}, std::uint32_t{1}, types[static_cast<std::size_t>(form)],
                                     static_cast<std::uint32_t>(count), std::uint32_t{1}}) {
        append(word);
    }
}

void PostgresArray::integer(std::int64_t value) {
    append(std::uint32_t{sizeof value});
    const std::uint64_t bits = __builtin_bswap64(static_cast<std::uint64_t>(value));
    bytes_.append(reinterpret_cast<const char*>(&bits), sizeof bits);
}

void PostgresArray::bytes(std::string_view value) {
    append(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
}

void PostgresArray::text(std::string_view value) {
    if (is_plain_text(value)) return bytes(value);
    const std::size_t head = bytes_.size();
    append(std::uint32_t{0});
    append_escaped(bytes_, value);
    const std::uint32_t length = __builtin_bswap32(static_cast<std::uint32_t>(bytes_.size() - head - 4));
    std::memcpy(bytes_.data() + head, &length, sizeof length);
}

void PostgresArray::null() { append(std::uint32_t{0xFFFF'FFFF}); }

void PostgresArray::append(std::uint32_t word) {
    word = __builtin_bswap32(word);
    bytes_.append(reinterpret_cast<const char*>(&word), sizeof word);
}

ColumnArrays arrays_for(const TableShape& shape, std::size_t columns, std::size_t rows, WantedColumn wanted) {
    ColumnArrays arrays(columns);
    for (std::size_t i = 0; i < columns; ++i) {
        if (wanted(shape.columns[i])) arrays[i].emplace(shape.forms[i], rows);
    }
    return arrays;
}

void add_arrays(PostgresParameters& parameters, ColumnArrays& arrays) {
    for (std::optional<PostgresArray>& array : arrays) {
        if (array) parameters.array(array->take());
    }
}

// ---- reading ------------------------------------------------------------------------------------------------------

namespace {

template <class Number>
Number big_endian(const char* bytes) {
    Number number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i) {
        number = static_cast<Number>(number << 8 | static_cast<unsigned char>(bytes[i]));
    }
    return number;
}

// numeric: how many digits of base 10,000, the power of the first, the sign, digits behind the point; then the digits.
bool read_numeric(std::string_view bytes, Value& value) {
    if (bytes.size() < 8) return false;
    const auto word = [&](std::size_t i) { return big_endian<std::uint16_t>(bytes.data() + 2 * i); };
    const std::size_t digits = word(0);
    const auto power = static_cast<std::int16_t>(word(1));
    const bool negative = word(2) == 0x4000;
    if ((word(2) != 0 && !negative) || bytes.size() != 8 + 2 * digits) return false;
    if (static_cast<std::int64_t>(digits) > power + 1 && digits > 0) return false;  // Something behind the point.
    std::int64_t sum = 0;
    for (int i = 0; digits > 0 && i <= power; ++i) {
        const std::int64_t digit = static_cast<std::size_t>(i) < digits ? word(4 + static_cast<std::size_t>(i)) : 0;
        // Downwards, because there is one more number below zero than above.
        if (__builtin_mul_overflow(sum, std::int64_t{10'000}, &sum) || __builtin_sub_overflow(sum, digit, &sum)) {
            return false;
        }
    }
    if (!negative && sum == INT64_MIN) return false;
    value = negative ? sum : -sum;
    return true;
}

}  // namespace

bool read_value(const PGresult& result, int row, int column, Value& value) {
    if (PQgetisnull(&result, row, column) != 0) {
        value = std::monostate();
        return true;
    }
    const char* data = PQgetvalue(&result, row, column);
    const std::string_view bytes(data, static_cast<std::size_t>(PQgetlength(&result, row, column)));
    switch (PQftype(&result, column)) {
        case 16:  // boolean
            value = std::int64_t{bytes[0] != 0};
            return true;
        case 20:  // bigint
            value = static_cast<std::int64_t>(big_endian<std::uint64_t>(data));
            return true;
        case 21:  // smallint
            value = std::int64_t{static_cast<std::int16_t>(big_endian<std::uint16_t>(data))};
            return true;
        case 23:  // integer
            value = std::int64_t{static_cast<std::int32_t>(big_endian<std::uint32_t>(data))};
            return true;
        case 26:  // oid
            value = std::int64_t{big_endian<std::uint32_t>(data)};
            return true;
        case 17:  // bytea
            value = std::string(bytes);
            return true;
        case 19:    // name
        case 25:    // text
        case 114:   // json
        case 705:   // a literal
        case 1043:  // varchar
            value = unescaped(bytes);
            return true;
        case 701:  // double precision; no column of ours is one.
            value = fmt::format("{}", std::bit_cast<double>(big_endian<std::uint64_t>(data)));
            return true;
        case 1700:  // numeric: what sum() of bigint gives.
            return read_numeric(bytes, value);
        default:
            return false;
    }
}

bool read_values(const PGresult& result, int row, std::vector<Value>& values) {
    values.resize(static_cast<std::size_t>(PQnfields(&result)));
    bool good = true;
    for (std::size_t i = 0; i < values.size(); ++i) {
        good = read_value(result, row, static_cast<int>(i), values[i]) && good;
    }
    return good;
}

}  // namespace interlock::store
