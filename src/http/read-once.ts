/**
 * Returns a function that reads each key once and remembers the result. Concurrent calls share a read; a failed one is retried by the next
 * call. The caller bounds the keys.
 */
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
