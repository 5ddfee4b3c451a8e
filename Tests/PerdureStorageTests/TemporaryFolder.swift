import Glibc

/// A folder of one test, removed with all it holds.
final class TemporaryFolder: Sendable {
  let path: String

  init() {
    var template = Array("/tmp/perdure-storage-XXXXXX".utf8CString)
    _ = unsafe mkdtemp(&template)
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// The path of a file in it.
  func file(_ name: String) -> String { path + "/" + name }

  /// The names in it, in order.
  var names: [String] { names(in: path) }

  /// The names in a folder, in order.
  func names(in path: String) -> [String] {
    guard let folder = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(folder) }
    var names: [String] = []
    while let item = unsafe readdir(folder) {
      let name = unsafe withUnsafePointer(to: &item.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) {
          unsafe String(cString: $0)
        }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  deinit {
    for name in names {
      for inner in names(in: file(name)) { unsafe unlink(file(name) + "/" + inner) }
      unsafe rmdir(file(name))
      unsafe unlink(file(name))
    }
    unsafe rmdir(path)
  }
}

/// Writes a file.
func write(_ bytes: [UInt8], to path: String) {
  guard let file = unsafe fopen(path, "w") else { return }
  _ = unsafe bytes.withUnsafeBytes { unsafe fwrite($0.baseAddress, 1, $0.count, file) }
  unsafe fclose(file)
}

/// Reads a file.
func read(_ path: String) -> [UInt8] {
  guard let file = unsafe fopen(path, "r") else { return [] }
  defer { unsafe fclose(file) }
  var bytes: [UInt8] = []
  while true {
    let byte = unsafe fgetc(file)
    guard byte >= 0 else { return bytes }
    bytes.append(UInt8(truncatingIfNeeded: byte))
  }
}
