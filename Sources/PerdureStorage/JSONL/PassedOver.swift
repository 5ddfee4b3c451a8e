import PerdureModel

/// What could not be read of a store that is only looked at, and was passed over.
final class PassedOver {
  private(set) var errors: [PerdureError] = []
  /// The documents of which a part is missing: no value of them would be right.
  private(set) var documents: Set<DocumentID> = []

  /// Remembers an error of damage; any other is thrown.
  func add(_ error: any Error, about sidecar: Sidecar? = nil) throws {
    guard let error = error as? PerdureError, error.code == .storeCorrupt else { throw error }
    if case .document(let id)? = sidecar { documents.insert(id) }
    if !errors.contains(where: { $0.description == error.description }) { errors.append(error) }
  }
}
