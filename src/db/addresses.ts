/** Connection URLs for each role. They contain passwords and must not be logged. */
export interface DatabaseAddresses {
  readonly api: string
  readonly stream: string
  readonly owner: string
}

export function oneRole(url: string): DatabaseAddresses {
  return { api: url, stream: url, owner: url }
}

export function roleOf(url: string): string {
  return decodeURIComponent(new URL(url).username)
}
