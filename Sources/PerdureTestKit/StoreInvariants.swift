import PerdureEngine
public import PerdureModel
import Synchronization

/// What must hold of every store between two commits, whatever was killed when.
public enum StoreInvariants {
  /// Returns a sentence for each invariant that the store breaks.
  public static func violations(of reads: any StorageReads) async throws -> [String] {
    let violations = Mutex<[String]>([])
    _ = try await StoreCheck.run(reads) { finding in
      violations.withLock { $0.append(finding.description) }
    }
    return violations.withLock { $0 }
  }
}
