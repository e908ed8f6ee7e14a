#include <gtest/gtest.h>

#include <sstream>

#include "client/cli/text.h"

namespace holdfast::cli {
namespace {

// A key is chosen by a client, and a terminal obeys what it is sent.
TEST(TextTest, NoKeyReachesTheTerminalAsACommand) {
  EXPECT_EQ(Escape("\x1b[2Jx\n"), "\\x1b[2Jx\\x0a");
  EXPECT_EQ(Escape("\xc2\x9b"
                   "2J"),
            "\\xc2\\x9b2J");  // the same in the other control range
  EXPECT_EQ(Escape("a\xe2\x80\xae"
                   "b"),
            "a\\xe2\\x80\\xaeb");  // right-to-left override
  EXPECT_EQ(Escape(absl::string_view("a\0b", 3)), "a\\x00b");
}

TEST(TextTest, ReadableTextStaysAsItIs) {
  EXPECT_EQ(Escape("model/7 layer=3 \"x\""), "model/7 layer=3 \"x\"");
  EXPECT_EQ(Escape("schl\xc3\xbcssel"), "schl\xc3\xbcssel");
}

// So that two keys never look the same.
TEST(TextTest, BytesThatAreNoTextAndBackslashesAreEscaped) {
  EXPECT_EQ(Escape("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Escape("\xc3"), "\\xc3");
  EXPECT_EQ(Escape("\xc0\xaf"), "\\xc0\\xaf");           // longer than needed
  EXPECT_EQ(Escape("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
  EXPECT_EQ(Escape("a\\x41"), "a\\\\x41");
}

TEST(TextTest, ColumnsAreAligned) {
  Table table({{"NAME"}, {"SIZE", Table::Align::kRight}, {"HOST"}});
  table.Add({"a", "1.0 MiB", "h1"});
  table.Add({"longer\xc3\xbc", "12 B", ""});
  std::ostringstream out;
  table.Write(out);
  EXPECT_EQ(out.str(),
            "NAME        SIZE  HOST\n"
            "a        1.0 MiB  h1\n"
            "longer\xc3\xbc     12 B\n");
}

TEST(TextTest, EmptyValuesOfPropertiesAreVisible) {
  Properties lines;
  lines.Add("rack", "");
  lines.Add("long name", "x\n");
  std::ostringstream out;
  lines.Write(out);
  EXPECT_EQ(out.str(), "rack:       -\nlong name:  x\\x0a\n");
}

TEST(TextTest, IdsOfSixteenBytesAreWrittenAsUuids) {
  EXPECT_EQ(HexId("0123456789abcdef"), "30313233-3435-3637-3839-616263646566");
  EXPECT_EQ(HexId("\x01\xff"), "01ff");
}

}  // namespace
}  // namespace holdfast::cli
