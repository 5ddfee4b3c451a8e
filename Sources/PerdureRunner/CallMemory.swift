import CFFI

/// The memory of one call or of one signature, given back when nobody needs it any more.
@safe final class CallMemory {
  private var blocks: [UnsafeMutableRawPointer] = unsafe []

  deinit { while let block = unsafe blocks.popLast() { unsafe block.deallocate() } }

  /// Gives zeroed bytes that any value of C may begin at.
  func take(_ count: Int) -> UnsafeMutableRawPointer {
    let block = UnsafeMutableRawPointer.allocate(byteCount: max(count, 1), alignment: 16)
    unsafe block.initializeMemory(as: UInt8.self, repeating: 0, count: max(count, 1))
    unsafe blocks.append(block)
    return unsafe block
  }

  /// Gives a copy of the bytes with a zero behind them.
  func take(_ bytes: [UInt8]) -> UnsafeMutableRawPointer {
    let block = unsafe take(bytes.count + 1)
    unsafe bytes.withUnsafeBytes { source in
      if let start = source.baseAddress {
        unsafe block.copyMemory(from: start, byteCount: bytes.count)
      }
    }
    return unsafe block
  }

  /// Gives room for pointers.
  func takePointers<Pointee>(
    _ count: Int,
    to type: Pointee.Type
  ) -> UnsafeMutablePointer<UnsafeMutablePointer<Pointee>?> {
    let bytes = unsafe (count + 1) * MemoryLayout<UnsafeMutablePointer<Pointee>?>.stride
    return unsafe take(bytes).bindMemory(
      to: UnsafeMutablePointer<Pointee>?.self,
      capacity: count + 1
    )
  }
}
