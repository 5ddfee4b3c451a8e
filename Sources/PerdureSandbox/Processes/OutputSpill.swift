import PerdureModel

/// Keeps the whole output of a command in a file once it is larger than what is shown.
struct OutputSpill {
  /// Creates the file and returns its path.
  typealias Create = @Sendable () throws(FileError) -> (file: Descriptor, path: String)

  private let thresholds: ExecutionOptions.Spill
  private let create: Create
  private var waiting: [UInt8] = []
  private var total: Int64 = 0
  private var lines = 0
  private var endsWithNewline = true
  private var file: Descriptor?
  private(set) var path: String?
  private(set) var isTruncated = false

  init(_ thresholds: ExecutionOptions.Spill, _ create: @escaping Create) {
    self.thresholds = thresholds
    self.create = create
  }

  /// Takes raw output of either stream in the order of its arrival.
  mutating func take(_ bytes: ArraySlice<UInt8>) throws(FileError) {
    let data = Array(bytes)
    guard let last = data.last else { return }
    let before = total
    total += Int64(data.count)
    if file == nil {
      lines += newlines(in: data)
      endsWithNewline = last == 0x0A
      waiting += data
      guard
        total > Int64(thresholds.afterBytes)
          || lines + (endsWithNewline ? 0 : 1) > thresholds.afterLines
      else { return }
      let made = try create()
      file = made.file
      path = made.path
      let all = waiting
      waiting = []
      try write(all, at: 0)
    } else {
      try write(data, at: before)
    }
  }

  private mutating func write(_ data: [UInt8], at place: Int64) throws(FileError) {
    let room = max(0, thresholds.maxBytes - place)
    if Int64(data.count) > room { isTruncated = true }
    let part = data.count > Int(clamping: room) ? Array(data.prefix(Int(clamping: room))) : data
    guard !part.isEmpty, let file else { return }
    do {
      try file.write(part)
    } catch {
      throw FileError(.unknown, "the output cannot be kept in a file: \(error.text)", path: path)
    }
  }
}
