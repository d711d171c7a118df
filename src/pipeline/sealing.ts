/** Makes a text unreadable in the database, whose backups and WAL must hold no token, address or secret, and undoes it. */
export interface Sealing {
  seal(text: string): string
  open(sealed: string): string
}
