/// What everybody holds who may call the code of an extension.
///
/// Phases keep the extensions with which they began. Code that goes away has to wait until the last
/// of them has ended, and that is when its lease is gone.
package final class ExtensionLease: Sendable {
  private let onEnd: @Sendable () -> Void

  /// Makes a lease; `onEnd` runs when nobody holds it any more.
  package init(onEnd: @escaping @Sendable () -> Void) { self.onEnd = onEnd }

  deinit { onEnd() }
}
