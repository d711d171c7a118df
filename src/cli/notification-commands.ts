import { LANGUAGES } from '../language.ts'
import { type Command, defineCommand } from './command.ts'
import { DEFAULT_LIMIT, flag, json, limit, oneOf, orderIdOrNumber, text } from './options.ts'

const ALL_FAILED = 'all-failed'

export const NOTIFICATION_COMMANDS: readonly Command[] = [
  defineCommand({
    name: 'mail list',
    options: { status: oneOf(['queued', 'sent', 'failed'], 'only mails in this state'), order: orderIdOrNumber, limit, json },
    help: 'the newest order mails and their status',
    run: async (context, { status, order, limit = DEFAULT_LIMIT, json }) =>
      (await import('./mail-commands.ts')).list(context, { status, order, limit }, json),
  }),
  defineCommand({
    name: 'mail retry',
    arguments: [{ name: 'EVENT_ID', or: ALL_FAILED }],
    options: { [ALL_FAILED]: flag('all failed mails') },
    help: 'retries failed mails',
    run: async (context, _, eventId) => (await import('./mail-commands.ts')).retry(context, eventId ?? null),
  }),
  defineCommand({
    name: 'mail templates',
    arguments: [{ name: 'FOLDER' }],
    options: { language: oneOf(LANGUAGES, 'only those of this language') },
    help: 'writes the built-in mail templates into a folder, one below it for each language; a shop changes some of them and names their folder in `MAIL_TEMPLATES`',
    needs: 'nothing',
    run: async ({ terminal }, { language }, folder = '') =>
      (await import('./document-commands.ts')).writeMailTemplates(terminal, folder, language === undefined ? LANGUAGES : [language]),
  }),
  defineCommand({
    name: 'webhook add',
    arguments: [{ name: 'URL' }],
    options: { events: text('TYPE,…|all', 'only events of these types; all of orders unless given') },
    help: 'posts events to a URL from now on; prints the secret that signs them, once',
    run: async (context, { events }, url = '') => (await import('./webhook-commands.ts')).add(context, url, events),
  }),
  defineCommand({
    name: 'webhook list',
    options: { json },
    help: 'the endpoints and their state',
    run: async (context, { json }) => (await import('./webhook-commands.ts')).list(context, json),
  }),
  defineCommand({
    name: 'webhook deliveries',
    arguments: [{ name: 'ID' }],
    options: { status: oneOf(['queued', 'delivered', 'failed'], 'only deliveries in this state'), limit, json },
    help: "an endpoint's newest deliveries",
    run: async (context, { status, limit = DEFAULT_LIMIT, json }, id = '') =>
      (await import('./webhook-commands.ts')).deliveries(context, id, { status, limit }, json),
  }),
  defineCommand({
    name: 'webhook redeliver',
    arguments: [{ name: 'ID' }, { name: 'EVENT_ID', or: ALL_FAILED }],
    options: { [ALL_FAILED]: flag('all events whose delivery failed') },
    help: 'delivers an event again, or all that failed',
    run: async (context, _, id = '', eventId) => (await import('./webhook-commands.ts')).redeliverEvents(context, id, eventId ?? null),
  }),
  defineCommand({
    name: 'webhook rotate',
    arguments: [{ name: 'ID' }],
    help: 'makes a new secret and prints it, once; both sign for 24 hours',
    run: async (context, _, id = '') => (await import('./webhook-commands.ts')).rotate(context, id),
  }),
  defineCommand({
    name: 'webhook enable',
    arguments: [{ name: 'ID' }],
    help: 'enables a disabled endpoint',
    run: async (context, _, id = '') => (await import('./webhook-commands.ts')).enable(context, id),
  }),
  defineCommand({
    name: 'webhook remove',
    arguments: [{ name: 'ID' }],
    help: 'removes an endpoint and its deliveries',
    run: async (context, _, id = '') => (await import('./webhook-commands.ts')).remove(context, id),
  }),
]
