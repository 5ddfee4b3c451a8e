extension Operation {
  /// The same change of a value that lies at `prefix` in another one.
  package func under(_ prefix: [PathSegment]) -> Operation {
    switch self {
    case .replace(let value): .set(prefix, value)
    case .set(let path, let value): .set(prefix + path, value)
    case .delete(let path): .delete(prefix + path)
    case .append(let path, let text): .append(prefix + path, text)
    case .trim(let path, let count): .trim(prefix + path, count)
    case .splice(let path, let index, let remove, let items):
      .splice(prefix + path, at: index, remove: remove, insert: items)
    case .reorder(let path, let order): .reorder(prefix + path, order)
    }
  }
}
