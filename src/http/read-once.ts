/** Concurrent calls share a read, and the next call retries a failed one. The caller bounds the keys. */
export function readOnce<T>(read: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const known = new Map<string, Promise<T>>()
  return (key) => {
    const reading =
      known.get(key) ??
      read(key).catch((error) => {
        known.delete(key)
        throw error
      })
    known.set(key, reading)
    return reading
  }
}
