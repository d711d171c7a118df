/**
 * Whether a transaction was undone because something was not so that it insisted on, by the database's function `insist`: it was sent with
 * its commit, before anybody had looked.
 */
export function isUnmet(error: unknown): boolean {
  return (error as { code?: string } | null)?.code === 'SF001'
}
