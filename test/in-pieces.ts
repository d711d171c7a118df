/** `bytes` as a network may deliver them: in pieces of these sizes, again and again; whole without sizes. */
export async function* inPieces(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let start = 0, turn = 0; start < bytes.length; turn++) {
    const end = start + (sizes[turn % sizes.length] ?? bytes.length)
    yield bytes.subarray(start, end)
    start = end
  }
}
