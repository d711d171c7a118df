import { type Static, Type } from 'typebox'
import { AppError, type FieldError } from '../errors.ts'

const MUST_BE_COUNTRY = 'be the ISO 3166-1 code of a country, such as GB'
/** Refuses a postal code or city such as a dash. */
const HAS_CONTENT = /[^\p{P}\p{Z}\p{C}]/u
/** ISO 3166-1 codes, with Kosovo (XK), and Northern Ireland in customs codes (XI). */
const COUNTRIES = codes(`
  AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD
  CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF
  GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN
  KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA
  NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI
  SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI
  VN VU WF WS XI XK YE YT ZA ZM ZW`)
// Countries whose addresses need a postal code, from Google's address data (github.com/google/libaddressinput,
// 2025-06). In Spain and Italy the postal code replaces the province, which many people omit.
const NEED_POSTAL_CODE = codes(`
  AS AT AU AX BE BL BR CA CH CN DE DK ES FI FK FM FR GB GF GG GL GP GR GS GU IM IN IO IT JE JP KR LI LU MF MH MP MQ MX MY
  NC NL NO NZ PF PL PM PN PR PT PW RE RU SE SG SH SJ SM TC TR TW US VI WF XI YT ZA`)
const NEED_REGION = codes(`
  AS AU BR CA CN FM GU HN IN IQ JM JP KN KR MH MP PF PG PW SO SV TW UM US VE VI`)
const NEED_NO_CITY = codes(`
  AD AG GI HK KY MO NR SG SM VG`)

const text = (maxLength: number) => Type.String({ minLength: 1, maxLength })
const optionalText = (maxLength: number) => Type.Optional(Type.Union([text(maxLength), Type.Null()]))

export const ShippingAddressSchema = Type.Object(
  {
    name: text(200),
    company: optionalText(200),
    line1: text(200),
    line2: optionalText(200),
    city: optionalText(100),
    region: optionalText(100),
    postal_code: optionalText(20),
    country: Type.String({ pattern: '^[A-Z]{2}$', 'x-must': MUST_BE_COUNTRY, description: 'ISO 3166-1 alpha-2.' }),
    phone: Type.Optional(Type.Union([Type.String({ minLength: 1, maxLength: 40, 'x-input': 'pasted' }), Type.Null()])),
  },
  {
    title: 'ShippingAddress',
    additionalProperties: false,
    description: 'City, region and postal code are required where the post of the country needs them.',
  },
)
export type ShippingAddress = Static<typeof ShippingAddressSchema>

export function isCountry(code: string): boolean {
  return COUNTRIES.has(code)
}

/** Throws `invalid_body`, for example for a missing postal code in Germany. `pointer` is the address's JSON pointer. */
export function assertDeliverable(address: ShippingAddress | null | undefined, pointer: string): void {
  const errors = address === null || address === undefined ? [] : findFaults(address, pointer)
  if (errors.length > 0) throw new AppError('invalid_body', 'The address is not complete.', { errors })
}

function findFaults(address: ShippingAddress, pointer: string): FieldError[] {
  const { country } = address
  if (!isCountry(country)) return [{ pointer: `${pointer}/country`, detail: `must ${MUST_BE_COUNTRY}` }]
  const needed = [
    ...(NEED_NO_CITY.has(country) ? [] : (['city'] as const)),
    ...(NEED_REGION.has(country) ? (['region'] as const) : []),
    ...(NEED_POSTAL_CODE.has(country) ? (['postal_code'] as const) : []),
  ]
  return needed
    .filter((name) => !HAS_CONTENT.test(address[name] ?? ''))
    .map((name) => ({ pointer: `${pointer}/${name}`, detail: 'is required' }))
}

function codes(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/))
}
