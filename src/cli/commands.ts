import { ROLES } from '../config.ts'
import { OPERATOR_ROLES } from '../http/scopes.ts'
import { SUBSCRIBERS } from '../subscribers.ts'
import { type Command, defineCommand, UsageError } from './command.ts'
import { NOTIFICATION_COMMANDS } from './notification-commands.ts'
import {
  count,
  currency,
  DEFAULT_LIMIT,
  DEFAULT_SOURCE,
  databaseUrl,
  dryRun,
  encoding,
  expiresInDays,
  flag,
  json,
  keepHours,
  limit,
  oneOf,
  orderId,
  overlapHours,
  placedBefore,
  placedFrom,
  runId,
  scopes,
  since,
  someOf,
  source,
  text,
  wait,
} from './options.ts'

const FORMATS = ['ndjson', 'csv'] as const
/** Lake files are repaired instead, those of both partitions under the name `lake`. */
const REWOUND = SUBSCRIBERS.filter(({ name, position }) => position === 'topic' || name === 'lake').map(({ name }) => name)

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  defineCommand({
    name: 'serve',
    options: { role: someOf(ROLES, 'runs only this role; may be given several times') },
    help: 'runs the store; every role unless some are named',
    needs: 'settings',
    run: async ({ config, terminal }, { role }) => (await import('./serve.ts')).serve(config, terminal, role),
  }),
  defineCommand({
    name: 'migrate',
    options: { wait },
    help: "brings the database's schema, replication slots and rights up to date",
    needs: 'settings',
    run: async (context, values) => (await import('./database-commands.ts')).migrate(context, values.wait),
  }),
  defineCommand({
    name: 'config',
    options: { json },
    help: 'prints each setting with what is in effect and where it came from, secrets masked; exit status 2 when one cannot be used',
    needs: 'nothing',
    run: async ({ terminal }, { json }) => (await import('./config-command.ts')).printConfig(terminal, json),
  }),
  defineCommand({
    name: 'doctor',
    options: { json },
    help: 'examines settings, database, replication slot, clocks, disks, broker, mail server, bucket and caches, and prints what to do, without changing anything; exit status 1 when there is a problem',
    needs: 'nothing',
    run: async ({ terminal }, { json }) => (await import('./doctor-command.ts')).printDiagnosis(terminal, json),
  }),
  defineCommand({
    name: 'backup',
    arguments: [{ name: 'FOLDER' }],
    help: 'copies the embedded database and its secrets into a new folder, also while the store runs; does not copy the lake',
    needs: 'settings',
    run: async (context, _values, target = '') => (await import('./database-commands.ts')).backUp(context, target),
  }),
  defineCommand({
    name: 'restore',
    arguments: [{ name: 'FOLDER' }],
    help: 'replaces the embedded database by a backup and sets the old one aside, reconciles topic and lake with it, and lists the lost orders',
    needs: 'settings',
    run: async (context, _values, source = '') => (await import('./database-commands.ts')).restore(context, source),
  }),
  defineCommand({
    name: 'database move',
    options: { from: databaseUrl },
    help: 'moves the embedded store of `DATA_DIR` into the empty database of `DATABASE_URL`, while no process of the store runs',
    needs: 'settings',
    run: async (context, { from }) => (await import('./database-commands.ts')).moveStore(context, from),
  }),
  defineCommand({
    name: 'catalogue import',
    arguments: [{ name: 'FILE|-' }],
    options: {
      format: oneOf(FORMATS, "the file's format, where its name and first line do not show it"),
      encoding,
      prove: flag('compares the number of products and the sums of their prices with the file'),
      'dry-run': dryRun,
      json,
    },
    help: 'adds and updates products by sku, from NDJSON or CSV, at half speed while orders come in; exit status 1 when a line was refused, or with `--prove` when file and store differ',
    run: async (context, { format, encoding, prove, 'dry-run': isDryRun, json }, file = '') =>
      prove || isDryRun || json
        ? (await import('./import-commands.ts')).proveProducts(context, file, { format, encoding, isDryRun, json })
        : (await import('./import-commands.ts')).importFile(context, file, { format, encoding }),
  }),
  defineCommand({
    name: 'catalogue export',
    options: {
      format: oneOf(FORMATS, 'ndjson unless given'),
      stock: flag('writes the stock of each product, too'),
      'for-spreadsheets': flag('guards texts that a spreadsheet would run as formulas; needs --format csv'),
    },
    findContradiction: ({ format, 'for-spreadsheets': isGuarded }) =>
      isGuarded && format === 'ndjson' ? '--for-spreadsheets needs --format csv' : null,
    help: 'writes every product to standard output, as the import reads it; its stock only with `--stock`, because importing such a file later resets stock to what it was',
    run: async (context, { format, stock: withStock, 'for-spreadsheets': forSpreadsheets }) =>
      (await import('./import-commands.ts')).exportProducts(context, format, { withStock, forSpreadsheets }),
  }),
  defineCommand({
    name: 'convert',
    arguments: [{ name: 'SHOP' }, { name: 'WHAT' }, { name: 'FILE' }],
    options: {
      currency,
      encoding,
      passwords: text('FILE', 'the password hashes of the customers'),
      variations: text('FILE', 'the variations of the products of WooCommerce'),
      'images-below': text('FOLDER', 'the folder of the images of Magento'),
    },
    help: 'writes an export of `shopify`, `woocommerce`, `medusa` or `magento` (`products`, `customers`, `guests`, `orders`) as lines for the imports, without what is not for sale there; exit status 1 when a record was refused',
    needs: 'nothing',
    run: async ({ terminal }, { 'images-below': imagesBelow, ...options }, shop = '', what = '', file = '') =>
      (await import('./import-commands.ts')).convertFile(terminal, [shop, what, file], { imagesBelow, ...options }),
  }),
  defineCommand({
    name: 'import customers',
    arguments: [{ name: 'FILE' }],
    options: {
      source,
      'dry-run': dryRun,
      'without-unusable-passwords': flag('imports a customer whose hash cannot be used without a password'),
      json,
    },
    help: "moves another shop's customers in, from NDJSON, with their old password hashes; exit status 0 only when the store has every one",
    run: async (
      context,
      { source = DEFAULT_SOURCE, 'dry-run': isDryRun, 'without-unusable-passwords': dropsUnusableHashes, json },
      file = '',
    ) => (await import('./import-commands.ts')).moveCustomersIn(context, file, { source, isDryRun, dropsUnusableHashes, json }),
  }),
  defineCommand({
    name: 'import orders',
    arguments: [{ name: 'FILE' }],
    options: { source, 'dry-run': dryRun, json },
    help: "moves another shop's orders in, from NDJSON, with numbers, times and history; sends no mail and takes no stock; exit status 0 only when the file's and the store's counts and sums are equal",
    run: async (context, { source = DEFAULT_SOURCE, 'dry-run': isDryRun, json }, file = '') =>
      (await import('./import-commands.ts')).moveOrdersIn(context, file, { source, isDryRun, json }),
  }),
  defineCommand({
    name: 'lake query',
    arguments: [{ name: '"select …"' }],
    options: { 'allow-files': flag('lets the SQL read and write every file that you may'), json },
    help: "runs SQL (DuckDB's) over the views `order_events`, `orders`, `adjustments`, `payments`, `refunds`, `parcels`, `customers`, `catalogue_events`, `products`, `prices` and `stock_events`; it reads the lake and no other file unless `--allow-files`",
    needs: 'lake',
    run: async (context, { 'allow-files': allowFiles, json }, text = '') =>
      (await import('./lake-commands.ts')).runQuery(context, text, { allowFiles, json }),
  }),
  defineCommand({
    name: 'lake maintain',
    options: { 'keep-hours': keepHours },
    help: 'does now what the role `lake` does regularly: merges small files, brings the tables of the newest state up to date, ends old snapshots, and deletes files that belong to no snapshot',
    run: async (context, { 'keep-hours': hours }) => (await import('./lake-commands.ts')).maintain(context, hours),
  }),
  defineCommand({
    name: 'lake repair',
    help: 'sets aside damaged files of events in the lake and those with duplicated or altered rows, and rewrites them; adds missing events; rebuilds damaged metadata',
    run: async (context) => (await import('./pipeline-commands.ts')).repair(context),
  }),
  ...NOTIFICATION_COMMANDS,
  defineCommand({
    name: 'verify',
    options: { json, from: placedFrom, to: placedBefore, run: runId },
    help: 'compares orders, catalogue, topic, mails and lake; exit status 1 when something is missing, duplicated, corrupt or invalid, 3 when that is undecided',
    run: async (context, { json, from, to, run }) =>
      (await import('./pipeline-commands.ts')).verifyStore(context, {
        isJson: json,
        from: from?.(context.config.timeZone),
        to: to?.(context.config.timeZone),
        runId: run,
      }),
  }),
  defineCommand({
    name: 'replay',
    options: {
      since,
      order: orderId,
      subscriber: {
        ...oneOf(REWOUND, 'rewinds this subscriber, which handles what it has missed'),
        // Its position is in its files.
        must: `be one of ${REWOUND.join(', ')}; catalogue-lake cannot be rewound: storefront lake repair writes what the lake lacks`,
      },
      restored: flag('the database was restored: begins a new incarnation, and ends every session'),
      run: runId,
    },
    help: 'publishes changes of orders and the catalogue that the topic lacks; with `--subscriber`, rewinds one subscriber; with `--restored`, after a restore of the database by other means, first advances order numbers, versions and sequences',
    findContradiction({ since, order, subscriber, restored }) {
      if (restored && (since !== undefined || order !== undefined || subscriber !== undefined))
        return '--restored compares everything; leave out --since, --order and --subscriber'
      if (subscriber === undefined) return null
      if (order !== undefined) return '--order is for the topic; leave out --order or --subscriber'
      return subscriber === 'lake' && since !== undefined ? 'the lake finds by itself what it lacks; leave out --since' : null
    },
    run: async (context, { since, order, subscriber, restored, run: runId }) =>
      (await import('./pipeline-commands.ts')).replayOrders(context, {
        ...{ since: since?.(context.config.timeZone), orderId: order, subscriber, isRestored: restored, runId },
      }),
  }),
  defineCommand({
    name: 'admin create',
    arguments: [{ name: 'EMAIL' }],
    options: { role: oneOf(OPERATOR_ROLES, 'what the operator may do; `admin` unless given') },
    help: "creates an operator's account; asks for the password or reads it from standard input; an empty one is generated and printed",
    // Asks for the password before it starts a database.
    needs: 'settings',
    run: async (context, { role = 'admin' }, email = '') => (await import('./account-commands.ts')).createOperator(context, email, role),
  }),
  defineCommand({
    name: 'admin list',
    options: { json },
    help: 'the operators and their roles',
    run: async (context, { json }) => (await import('./account-commands.ts')).printOperators(context, json),
  }),
  defineCommand({
    name: 'admin role',
    arguments: [{ name: 'EMAIL' }, { name: 'ROLE' }],
    help: `gives an account a role (${OPERATOR_ROLES.join(', ')}), which ends its sessions; a customer's address must have been proven`,
    run: async (context, _, email = '', role = '') => {
      const known = OPERATOR_ROLES.find((name) => name === role)
      if (known === undefined) throw new UsageError(`the role must be one of ${OPERATOR_ROLES.join(', ')}`)
      return (await import('./account-commands.ts')).changeRole(context, email, known)
    },
  }),
  defineCommand({
    name: 'admin remove',
    arguments: [{ name: 'EMAIL' }],
    help: "takes the role from an operator and ends the sessions; the account becomes a customer's; the last admin keeps the role",
    run: async (context, _, email = '') => (await import('./account-commands.ts')).changeRole(context, email, null),
  }),
  defineCommand({
    name: 'activities',
    options: {
      actor: text('ID|system', 'only activities of this operator or key, or of commands'),
      subject: text('SUBJECT_ID', 'only activities about the product, order, account or other subject with this id'),
      action: text('ACTION', 'only calls of this operation, or this command'),
      since,
      limit,
      json,
    },
    help: 'what operators, keys and commands have changed, the newest first',
    run: async (context, { actor, subject, action, since, limit = DEFAULT_LIMIT, json }) => {
      const from = since?.(context.config.timeZone)
      return (await import('./activity-commands.ts')).printActivities(context, { actor, subjectId: subject, action, from, limit }, json)
    },
  }),
  defineCommand({
    name: 'admin reset-factors',
    arguments: [{ name: 'EMAIL' }],
    help: 'removes passkeys, authenticator app and recovery codes of an account whose owner has lost them, and ends its sessions; the password stays',
    run: async (context, _, email = '') => (await import('./account-commands.ts')).resetFactorsOf(context, email),
  }),
  defineCommand({
    name: 'demo',
    options: {
      fast: flag('places the orders of the past month at once, 1500 unless --orders is given'),
      orders: count,
      force: flag('places orders also in a store that has orders of others'),
    },
    help: 'places invented orders, which are confirmed, shipped, cancelled and returned, in the store that runs or in one that it runs itself, until Ctrl-C; refused where somebody else has ordered',
    needs: 'settings',
    run: async (context, { fast, orders = null, force }) =>
      (await import('./demo-command.ts')).demo(context, { isFast: fast, orders, isForced: force }),
  }),
  defineCommand({
    name: 'keys create',
    arguments: [{ name: 'NAME' }],
    options: { scopes, 'expires-in-days': expiresInDays },
    help: 'makes an API key for a machine and prints it once; the key belongs to no account',
    run: async (context, { scopes: named = [], 'expires-in-days': days }, name = '') =>
      (await import('./key-commands.ts')).createKey(context, name, { scopes: named, expiresInDays: days }),
  }),
  defineCommand({
    name: 'keys list',
    options: { limit, json },
    help: 'the newest API keys, without their secrets',
    run: async (context, { limit = DEFAULT_LIMIT, json }) => (await import('./key-commands.ts')).listKeys(context, limit, json),
  }),
  defineCommand({
    name: 'keys rotate',
    arguments: [{ name: 'ID' }],
    options: { 'overlap-hours': overlapHours },
    help: 'gives an API key another secret and prints it once; the current one stays valid for a time',
    run: async (context, { 'overlap-hours': hours }, id = '') => (await import('./key-commands.ts')).rotateKey(context, id, hours),
  }),
  defineCommand({
    name: 'keys revoke',
    arguments: [{ name: 'ID' }],
    help: 'ends an API key permanently, in every process within a second',
    run: async (context, _, id = '') => (await import('./key-commands.ts')).revokeKey(context, id),
  }),
  defineCommand({
    name: 'signing-keys rotate',
    help: 'publishes a new key, which signs access tokens six minutes later, when every client has it; the old one stays valid until its tokens have expired',
    run: async (context) => (await import('./account-commands.ts')).rotateKeys(context),
  }),
  defineCommand({
    name: 'secret change',
    help: 're-encrypts everything with another `STOREFRONT_SECRET`: asks for the new one or reads it from standard input; a store that keeps its own secret generates it',
    // Asks for the new secret before it starts a database.
    needs: 'settings',
    run: async (context) => (await import('./secret-commands.ts')).changeSecret(context),
  }),
  defineCommand({
    name: 'issuer change',
    help: 'issues access tokens for the current `BASE_URL`; restart every process of the API with it',
    run: async (context) => (await import('./account-commands.ts')).moveIssuer(context),
  }),
  defineCommand({
    name: 'openapi',
    help: 'prints the OpenAPI document',
    needs: 'nothing',
    run: async ({ terminal }) => (await import('./document-commands.ts')).printOpenApi(terminal),
  }),
  defineCommand({
    name: 'asyncapi',
    options: { write: text('FOLDER', 'writes it, and a JSON Schema for each event, into this folder') },
    help: 'prints the AsyncAPI document of the events, or writes it with a JSON Schema per event',
    needs: 'nothing',
    run: async ({ terminal }, { write }) => (await import('./document-commands.ts')).printAsyncApi(terminal, write ?? null),
  }),
]
