import { invalidBody } from './problem.ts'

// Characters that look like a dot, a colon or a slash, or that mail programs treat like one, and that NFKC keeps.
const DOTS = /[\u3002\ufe12\ua4f8]/g
const COLONS = /[\u2236\ua789]/g
const SLASHES = /[\\\u2044\u2215\u29f8\u29f9\u2571]/g
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu

// The top-level domains that spam uses most. More domains would refuse names such as `Node.js`, `St.John` and `Dr.med`.
const LINKED_TLDS = 'com|net|org|info|biz|shop|store|online|site|website|xyz|top|club|app|link|click|live|vip|icu|win|bid|ru|cn|рф'

const LINK = new RegExp(
  [
    // A scheme, including `hxxp://` and unknown ones.
    String.raw`[a-z][a-z0-9+.-]*:\/\/`,
    String.raw`(?<![\p{L}\p{N}])(?:mailto|tel|sms|javascript|data):`,
    String.raw`(?<![\p{L}\p{N}])www\d{0,3}\.[\p{L}\p{N}]`,
    // A host with a path, a query or a port. It ends in a label of at least two letters, or is an IPv4 address.
    String.raw`[\p{L}\p{N}]\.(?:\p{L}{2,63}|xn--[a-z0-9-]{1,59})(?:[/?#]|:\d)`,
    String.raw`(?<![\p{N}.])\d{1,3}(?:\.\d{1,3}){3}(?:[/?#]|:\d)`,
    // A bare host below a domain that mail programs turn into a link.
    String.raw`[\p{L}\p{N}_-]\.(?:${LINKED_TLDS})(?![\p{L}\p{N}])`,
    String.raw`\S@\S{1,253}\.\p{L}{2}`,
  ].join('|'),
  'iu',
)

/** Whether a mail program would show a link in the text. Similar characters count as the ones that they look like. */
export function containsLink(text: string): boolean {
  const plain = text.normalize('NFKC').replace(INVISIBLE, '').replace(DOTS, '.').replace(COLONS, ':').replace(SLASHES, '/')
  return LINK.test(plain)
}

/** Names appear in mails. Throws `invalid_body`. `pointer` names the property. */
export function assertNoLink(text: string | null | undefined, pointer: string): void {
  if (text === null || text === undefined || !containsLink(text)) return
  throw invalidBody(pointer, 'must not contain a URL', 'A name cannot contain a link.')
}
