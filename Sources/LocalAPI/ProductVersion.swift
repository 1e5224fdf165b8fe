/// The version of the product: one number for all its programs.
package enum ProductVersion {
    package static let text = "1.0.0"
}
