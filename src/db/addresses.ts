/** Connection URLs of one database, one for each role; roles may share one. They contain passwords: not for logs. */
export interface DatabaseAddresses {
  /** The address for the API, the subscribers and the commands: a role with only the rights of `rights.ts`. */
  readonly api: string
  /** The address for the change stream: the only role that may replicate. */
  readonly stream: string
  /** The address for migrations: the owner of all tables. */
  readonly owner: string
}

export function oneRole(url: string): DatabaseAddresses {
  return { api: url, stream: url, owner: url }
}

/** The role in the address; empty when the driver has to take it from the environment. */
export function roleOf(url: string): string {
  return decodeURIComponent(new URL(url).username)
}
