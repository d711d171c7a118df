/** A key may use `points` in `seconds`. */
export interface Limit {
  name: string
  points: number
  seconds: number
}

/** A limit for one client address, an IPv6 client's /64, and a higher one for all addresses of an IPv6 client's /48. */
export interface AddressLimit {
  address: Limit
  site: Limit
}

// A /48 is one customer of a data centre, or some hundred homes of a provider.
const SITE_FACTOR = 4

function byAddress(name: string, points: number, seconds: number): AddressLimit {
  return {
    address: { name: `${name}-address`, points, seconds },
    site: { name: `${name}-site`, points: points * SITE_FACTOR, seconds },
  }
}

// Wrong passwords for one account from one address: five are free, then each waits, 1 s, 2 s, 4 s … 15 min.
export const WRONG_PASSWORDS: Limit = { name: 'login', points: 5, seconds: 3_600 }
export const MAX_DELAY_SECONDS = 900
export const TURN: Limit = { name: 'login-turn', points: 1, seconds: MAX_DELAY_SECONDS }
// Wrong app codes for one account, in one session or from one address at sign-ins: a stranger with the password cannot
// delay the owner elsewhere.
export const WRONG_CODES: Limit = { name: 'second-factor', points: 5, seconds: 3_600 }
export const CODE_TURN: Limit = { name: 'second-factor-turn', points: 1, seconds: MAX_DELAY_SECONDS }
// Wrong codes from anywhere in a day: three codes of a million are right at a time. NIST SP 800-63B-4 §3.2.2 allows a
// hundred. Passkeys and recovery codes stay open.
export const WRONG_CODES_OF_ACCOUNT: Limit = { name: 'second-factor-account', points: 100, seconds: 86_400 }
// Wrong codes after the right password, in a day: the owner gets a mail at this number.
export const WORRYING_CODES: Limit = { name: 'second-factor-notice', points: 5, seconds: 86_400 }
// Each right password of an account with a second factor makes a row that lives for minutes.
export const SECOND_FACTOR_CHALLENGES: Limit = { name: 'second-factor-challenge', points: 20, seconds: 300 }
// Wrong passwords from one address for any accounts: a whole office mistypes less.
export const WRONG_PASSWORDS_OF_ADDRESS = byAddress('login', 100, 300)
// Each costs a hash, of which a core makes 20 to 50 a second: an address takes 2 to 5 percent of one core. See
// docs/decisions/auth-throttling.md.
export const REGISTRATIONS = byAddress('register', 60, 60)
// The cost of a registration with a taken address or a mail: a list of addresses cannot be tested or flooded quickly.
export const COSTLY_REGISTRATION = 3
// Each makes a row that lives for minutes.
export const PASSKEY_CHALLENGES = byAddress('passkey', 60, 60)
export const RESETS: Limit = { name: 'password-reset', points: 5, seconds: 1_800 }
export const RESETS_OF_ADDRESS = byAddress('password-reset', 60, 1_800)
// A guest costs no hash and no mail, but rows that stay for days. An office orders less.
export const GUESTS = byAddress('guest', 30, 600)
// Limit by client address too, so that a stranger cannot keep others from ordering with an address.
export const GUESTS_OF_MAILBOX: Limit = { name: 'guest-mailbox', points: 10, seconds: 1_800 }
// An export reads everything of an account.
export const EXPORTS: Limit = { name: 'export', points: 5, seconds: 3_600 }
// Changes and proofs of an address. Each is up to two mails, one of them to an address that need not be the caller's.
export const EMAIL_CHANGES: Limit = { name: 'email-change', points: 5, seconds: 3_600 }
// Sign-ins with providers: each is two requests, a row, and calls of the provider.
export const SIGN_INS = byAddress('sign-in', 60, 60)
// Limit for each mail kind. Past it no mail is sent and nothing is refused: flooding a mailbox cannot lock out its
// owner, who then has ten valid reset tokens. With one shared count, registrations would use up the resets.
export const MAILS: Limit = { name: 'account-mail', points: 10, seconds: 1_800 }
// Limit for each network (registrations) or account (new addresses): it takes three of them to use up one address's
// limit.
export const MAILS_BY_ONE: Limit = { name: 'account-mail-by-one', points: 4, seconds: 1_800 }
// A hash of a preview commits once. It is kept for longer than it is valid.
export const COMMITS: Limit = { name: 'mcp-commit', points: 1, seconds: 1_800 }
// Uses of one recipient's links to one order from one address. A person reloads the page some times.
export const ORDER_LINKS: Limit = { name: 'order-link', points: 60, seconds: 600 }
// Wrong postal codes for one recipient's links to one order, in a day and in the life of a link: a town has dozens of
// codes, a country some ten thousand. The owner of a link that was passed on can try tomorrow.
export const POSTAL_CODES_OF_DAY: Limit = { name: 'postal-code-day', points: 5, seconds: 86_400 }
export const POSTAL_CODES: Limit = { name: 'postal-code', points: 20, seconds: 90 * 86_400 }
