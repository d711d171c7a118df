/** Addresses of one database for the roles that use it, which may be one and the same. They carry passwords: not for logs. */
export interface DatabaseAddresses {
  /** Of the API, the subscribers and the commands: a role with the rights of `rights.ts` and no others. */
  readonly api: string
  /** Of the change stream, the only one that may replicate. */
  readonly stream: string
  /** Of the owner of all tables, for migrations. */
  readonly owner: string
}

/** A database that knows one role only. */
export function oneRole(url: string): DatabaseAddresses {
  return { api: url, stream: url, owner: url }
}

/** The role that an address names; empty when the driver has to find it elsewhere. */
export function roleOf(url: string): string {
  return decodeURIComponent(new URL(url).username)
}
