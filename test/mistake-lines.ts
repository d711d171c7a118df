/** The line that each mistake prints after `storefront: `, where `…` stands for what differs. */
export const LINES: Record<string, string> = {
  '`npm ci` was not run': 'its packages are not installed; run npm ci in the folder of package.json',
  '`npm ci` left out optional packages, and Node.js is older than 26':
    'this is Node.js v…, and Node.js 26 for …, which the store needs, is not installed; run npm ci --include=optional in the folder of package.json',
  '`npm ci` ran no install scripts':
    'the embedded PostgreSQL is not complete, because npm ran no install scripts; run npm ci --ignore-scripts=false, or set DATABASE_URL',
  'a command where there is no store': 'there is no store in …; start one there, or run storefront migrate',
  'a query where there is no lake': "there is no lake in …; set DATA_DIR or LAKE_URL to the store's",
  '`DATA_DIR` is a file': 'the data folder … cannot be used: it is a file; set DATA_DIR to a folder',
  "`DATA_DIR` is another user's, or may not be written to":
    'the data folder … cannot be used: this user may not write there; give the folder to the user who runs the store, or set DATA_DIR to another one',
  '`DATA_DIR` is on a read-only file system':
    'the data folder … cannot be used: its file system is read-only; set DATA_DIR to a folder that can be written to',
  'the disk of `DATA_DIR` is full': 'the embedded PostgreSQL cannot start: the disk of … is full (0 MB free): make room on it',
  '`postgres-password` or `secret` is missing from `DATA_DIR`':
    '… is missing beside the store in …: restore it from a backup; nothing was changed',
  '`DATA_DIR/postgres` is missing, such as for want of a mount, and other files of the store are there':
    'the database … is missing beside …: mount its disk, or run storefront restore with a backup, or move that away for a new store; nothing was changed',
  'a store that was moved is started without its new addresses':
    'the store of … was moved to another database: set DATABASE_URL to its address, and if it is set run storefront replay; to go back without what was sold there, rename … to …',
  '`--role` or `NATS_URL` without `DATABASE_URL`':
    'the process has only the roles api, and DATABASE_URL is not set; set it, or EMBEDDED=on for the embedded store in …',
  'the port is taken': 'cannot listen on 127.0.0.1, port …: another process has that port; set PORT to another one',
  'the operations port is taken': 'cannot listen on 127.0.0.1, port …: another process has that port; set OPS_PORT to another one',
  'the port is below 1024': 'cannot listen on 127.0.0.1, port 80: this user may not listen on that port; set PORT to one above 1023',
  'the address is none of this machine': 'cannot listen on 192.0.2.1, port …: this machine has no such address; set HOST to one of its own',
  'the database does not run': 'the database cannot be used: connect ECONNREFUSED …; check that it runs, and DATABASE_URL',
  'every connection that the database allows is in use':
    'the database cannot be used: …; raise max_connections, or that limit, or lower DATABASE_POOL_SIZE in every process',
  'the password of the database is wrong': 'the database cannot be used: password authentication failed for user …; check DATABASE_URL',
  'the password in `DATABASE_OWNER_URL` is wrong':
    'the database cannot be used: password authentication failed for user …; check DATABASE_OWNER_URL',
  'the password in `DATABASE_STREAM_URL` is wrong, during `migrate`':
    'the database cannot be used: password authentication failed for user …; check DATABASE_STREAM_URL',
  'the password in `DATABASE_STREAM_URL` is wrong, during `serve`':
    'the database cannot be used: password authentication failed for user …; check DATABASE_STREAM_URL',
  'the password in `DATABASE_STREAM_URL` is wrong, during `verify`':
    'the database cannot be used: password authentication failed for user …; check DATABASE_STREAM_URL',
  '`DATABASE_URL` has no password, and the server asks for one':
    'the database cannot be used: DATABASE_URL has no password, and the server asks for one',
  '`DATABASE_URL` has no password, during `serve`':
    'the database cannot be used: DATABASE_URL has no password, and the server asks for one',
  'a role may not connect to the database': `the database cannot be used: permission denied for database …; run "grant connect on database … to …" as the database's administrator`,
  'the database is not migrated': 'the database lacks … of … migrations; run storefront migrate',
  'the store was made by a development version':
    'this store was made by a development version and cannot be upgraded: export its data with that version, then remove the data folder or the database and start again, or restore a backup',
  '`migrate` as a role that may not make tables':
    'the role … lacks the right to create in the database …: set DATABASE_OWNER_URL to the address of its owner, or run "grant create on database … to …" as its administrator',
  "`migrate` as another role than the tables' owner":
    'the tables of this database belong to the role …, not to …: set DATABASE_OWNER_URL to the address of …',
  'the role in `DATABASE_URL` does not exist': `the role … in DATABASE_URL does not exist: run "create role … login password '…'" as the database's administrator`,
  '`migrate` with a role that may not replicate': `the role … may not replicate: set DATABASE_STREAM_URL to the address of a role that may, or run "alter role … replication" as the database's administrator`,
  "the API's role lacks a right":
    'the role in DATABASE_URL lacks a right: permission denied for table …; run storefront migrate, which grants it',
  'PostgreSQL writes no logical log':
    'the database has wal_level = replica; run "alter system set wal_level = logical" as its administrator, and restart it',
  'another `STOREFRONT_SECRET` than before': 'STOREFRONT_SECRET is not the secret of this store: set the one that it was last changed to',
  'another `BASE_URL` than the other processes of the API':
    'BASE_URL is https://store.example, but the access tokens of this store are issued for https://shop.example: set BASE_URL to that in every process of the API, or run storefront issuer change with the new BASE_URL and restart them all with it',
  '`STOREFRONT_SECRET` is missing': 'STOREFRONT_SECRET is required with DATABASE_URL',
  '`MAIL_FROM` is no address': 'MAIL_FROM must be an e-mail address, such as Store <no-reply@store.example>, not "…"',
  '`SMTP_CA` cannot be read': 'SMTP_CA: … cannot be read (ENOENT)',
  'NATS is unavailable during a command': 'NATS cannot be used at … (connection refused); check that it runs, and NATS_URL',
  'the certificate of NATS is signed by an unknown authority':
    'NATS cannot be used at … (…); set NATS_CA to the file of the authority that signed its certificate',
  'a role for an account whose address nobody has proven':
    'nobody has proven that this account belongs to the holder of its address: a password reset by mail proves it; run the command again then',
  '`admin create` for an address that has an account':
    'an account with this e-mail address exists already: storefront admin role EMAIL ROLE gives it a role',
  '`admin remove` of the last admin': 'the store would have no admin: make another one first, with storefront admin create or admin role',
  'a name in `OIDC_PROVIDERS` with capital letters':
    'OIDC_PROVIDERS must be up to 10 different names such as acme, of lower-case letters, digits and hyphens, not "…"',
  'an OpenID provider at plain http':
    'OIDC_KC_ISSUER must be the https address of the provider, such as https://id.example, as its tokens have it; http only for localhost',
  'a webhook to plain http': 'the URL must start with https://, or set WEBHOOK_ALLOW_PRIVATE=on',
  'a folder that cannot be written to': '… cannot be used: a part of its path is not a folder (ENOTDIR)',
  'a folder that cannot be made': '… cannot be used: there is no such file or folder (ENOENT)',
  'a folder for `mail templates` that has some': '… exists; give another folder',
  'a folder in place of a file': '… cannot be used: it is a folder (EISDIR)',
  'a file that does not exist': '… cannot be used: there is no such file or folder (ENOENT)',
  'a command that does not exist': 'there is no such command: drain; storefront help lists the commands',
}
