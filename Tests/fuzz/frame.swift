// What the decoder of frames accepts must be written again as the same bytes; what it refuses must
// not trap. The first byte decides whether the input gets a valid beginning, so that most inputs
// reach the sizes behind it.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOne(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let start, count > 0 else { return 0 }
  var bytes = Array(UnsafeBufferPointer(start: start, count: count))
  let isHelped = bytes.removeFirst().isMultiple(of: 2)
  if isHelped, bytes.count >= Frame.headerSize {
    bytes.replaceSubrange(0..<6, with: [0x50, 0x44, 0x52, 0x31, 64, 0])
    bytes[7] = 0
    bytes.replaceSubrange(54..<56, with: [0, 0])
  }
  guard let read = try? Frame.read(bytes) else { return 0 }
  switch read {
  case .frame(let frame):
    guard frame.encoded(sequence: frame.sequence) == bytes else {
      fatalError("a frame changed when it was read and written")
    }
  case .outside(let frame, let size):
    guard frame.payload == nil, size >= 0, size <= Frame.payloadLimit else {
      fatalError("a payload elsewhere has a size that was not checked")
    }
  case .ignored: break
  }
  return 0
}
