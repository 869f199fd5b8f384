//! The user's locale: whether its encoding is UTF-8, and which characters it can print.

use std::ffi::CStr;
use std::sync::OnceLock;

/// Returns whether the user's locale can print this character.
///
/// Asks only locales in UTF-8. In other locales only ASCII counts as printable.
#[must_use]
pub fn is_printable(character: char) -> bool {
    // A function of <wctype.h> that the `libc` crate lacks.
    unsafe extern "C" {
        fn iswprint_l(character: libc::c_uint, locale: libc::locale_t) -> libc::c_int;
    }
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    locale().is_some_and(|locale| {
        // SAFETY: the function takes any value of `wint_t`, and on Linux that is a Unicode scalar.
        // The locale is never freed.
        locale.is_utf8 && unsafe { iswprint_l(character.into(), locale.handle) } != 0
    })
}

/// Returns whether the encoding of the user's locale is UTF-8.
#[must_use]
pub fn is_utf8() -> bool {
    locale().is_some_and(|locale| locale.is_utf8)
}

/// The user's locale for characters. It is not set in any thread, because `setlocale(3)` would
/// change it for all threads at once.
struct Locale {
    handle: libc::locale_t,
    is_utf8: bool,
}

// SAFETY: no code changes or frees the locale, and reading one is safe in every thread
// (`locale(7)`).
unsafe impl Send for Locale {}
// SAFETY: as above.
unsafe impl Sync for Locale {}

/// Returns the user's locale, if it exists. The first call loads it, which most runs of a tool
/// never need.
fn locale() -> Option<&'static Locale> {
    static LOCALE: OnceLock<Option<Locale>> = OnceLock::new();
    let locale = LOCALE.get_or_init(|| {
        let (mask, none) = (libc::LC_CTYPE_MASK, std::ptr::null_mut());
        // SAFETY: the string ends in NUL, and there is no locale to begin with.
        let handle = unsafe { libc::newlocale(mask, c"".as_ptr(), none) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the locale is there, and with it the string, for as long as the process.
        let codeset = unsafe { CStr::from_ptr(libc::nl_langinfo_l(libc::CODESET, handle)) };
        Some(Locale {
            handle,
            is_utf8: codeset == c"UTF-8",
        })
    });
    locale.as_ref()
}
