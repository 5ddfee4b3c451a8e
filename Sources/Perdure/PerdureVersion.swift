import PerdureStorage

/// What this build is made of.
public enum PerdureVersion {
  /// The version of Perdure.
  public static let perdure = "0.1.0"
  /// The plugin ABI that is served, as `major.minor`.
  public static let abi = "1.0"
  /// The level of the messages that travel through the ABI.
  public static let messageLevel = 1
  /// The Swift that compiled it, as far as a program can know.
  public static var swift: String {
    #if compiler(>=6.4)
    "6.4 or newer"
    #elseif compiler(>=6.3)
    "6.3"
    #else
    "6.2"
    #endif
  }
  /// The SQLite that is linked.
  public static var sqlite: String { SQLiteLibrary.version }
}
