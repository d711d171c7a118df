export type DatabaseRole = 'api' | 'stream' | 'owner'

/** Connection URLs for each role. They contain passwords and must not be logged. */
export interface DatabaseAddresses extends Readonly<Record<DatabaseRole, string>> {
  /** The store runs this server itself, so no pooler is between. */
  readonly isEmbedded?: boolean
}

export function oneRole(url: string): DatabaseAddresses {
  return { api: url, stream: url, owner: url }
}

export function roleOf(url: string): string {
  return decodeURIComponent(new URL(url).username)
}
