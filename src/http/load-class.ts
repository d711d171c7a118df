/** What an overloaded process refuses, in this order: a class only when everything of those before it is refused. */
export const SHED_CLASSES = ['search', 'lists', 'orders'] as const
export type ShedClass = (typeof SHED_CLASSES)[number]
/** `essential` is never refused: health, and the calls of operators. */
export type LoadClass = ShedClass | 'essential'
