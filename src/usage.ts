/** What `storefront --help` prints. */
export const USAGE = `usage: storefront <command>

  serve [--role api|stream|email|lake|webhook]…
                                            run the store; every role unless some are named
  migrate                                   bring the database's schema up to date
  catalogue import FILE|- [--format ndjson|csv]
                                            add and update products by sku; exit status 1 when a line was refused
  catalogue export [--format ndjson|csv] [--stock]
                                            write every product to standard output, as the import reads it; its stock
                                            only with --stock, because an import of that sets it back
  lake query "select …" [--allow-files]     run SQL over the views order_events and orders; --allow-files lets it read and
                                            write every file that you may
  lake compact [--date YYYY-MM-DD]          merge the small files of each day before today, or of one day
  admin create EMAIL                        make an operator's account; the password is asked for, or read from standard
                                            input, or made up and printed when it is empty
  keys rotate                               publish a new key, which signs access tokens six minutes later
  mail list [--status queued|sent|failed] [--order ID|NUMBER] [--limit N]
                                            the newest order mails and what became of them
  mail retry EVENT_ID|--all-failed          try a mail again that was given up, or all of them
  webhook add URL [--events TYPE,…|all]     post order events to URL from now on; prints the secret that signs them, once
  webhook list                              the endpoints, and how they fare
  webhook deliveries ID [--status queued|delivered|failed] [--limit N]
                                            an endpoint's newest deliveries
  webhook redeliver ID EVENT_ID|--all-failed
                                            deliver an event again, or all that failed
  webhook enable ID                         let a disabled endpoint get webhooks again
  webhook rotate ID                         make a new secret and print it, once; both sign for 24 hours
  webhook remove ID                         forget an endpoint and its deliveries
  verify [--json]                           compare orders, topic, mails and lake; exit status 1 when something is missing,
                                            doubled or corrupt, 3 when it cannot be told
  replay [--since TIME] [--order ID]        publish order changes that the topic lacks; renews a lost replication slot
  replay --subscriber NAME [--since TIME]   let a subscriber read again what it has missed
  openapi                                   print the OpenAPI document
  asyncapi [--write FOLDER]                 print the AsyncAPI document of the order events, or write it and a JSON Schema
                                            for each event into a folder

Settings come from the environment; README.md lists them.`

/** The lines of one command, in the same form; all of them when it is not known. */
export function usageOf(command: string | undefined): string {
  const [, commands = ''] = USAGE.split('\n\n')
  const entries = commands.split(/\n(?= {2}\S)/).filter((entry) => command !== undefined && `${entry} `.startsWith(`  ${command} `))
  return entries.length === 0 ? USAGE : `usage: ${entries.map((entry) => `storefront ${entry.trim()}`).join('\n')}`
}
