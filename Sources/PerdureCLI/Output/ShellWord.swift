/// Words of commands that people copy.
enum ShellWord {
  /// Returns the text as one word of a shell.
  static func quoted(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "a")...UInt8(ascii: "z"):
        true
      default: "/._-:+,@%=".utf8.contains(byte)
      }
    }
    return isPlain ? text : "'" + text.replacing("'", with: #"'\''"#) + "'"
  }
}
