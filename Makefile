# Builds and installs the five programs, their manual pages and their completions.
#
#   make && sudo make install                  into /usr/local
#   make install DESTDIR=/tmp/root PREFIX=/usr
#   sudo make uninstall
#   make deb                                   a Debian package in target/debian, by cargo-deb
#
# The programs are linked statically: they start faster, and run on any distribution.
# STATIC=no links them to the C library of this machine.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
TARGET ?= $(shell rustc -vV | sed -n 's/^host: //p')
STATIC ?= yes

programs = zc-cat zc-dircopy zc-pv zc-tee zc-yes
built = $(or $(CARGO_TARGET_DIR),target)/$(TARGET)/release
root = $(DESTDIR)$(PREFIX)

ifeq ($(STATIC),yes)
# With a target that is named, the flags leave build scripts and macros alone.
export RUSTFLAGS := $(RUSTFLAGS) -C target-feature=+crt-static
endif

.PHONY: all install uninstall deb

all:
	$(CARGO) build --release --locked --target $(TARGET) -p zcopy-cli --bins

install: all
	set -e; for program in $(programs); do \
	  install -D -m 755 $(built)/$$program $(root)/bin/$$program; \
	  put() { $(built)/$$program --generate "$$1" >$$program.part; install -D -m 644 $$program.part "$$2"; rm $$program.part; }; \
	  put man $(root)/share/man/man1/$$program.1; \
	  put bash $(root)/share/bash-completion/completions/$$program; \
	  put zsh $(root)/share/zsh/site-functions/_$$program; \
	  put fish $(root)/share/fish/vendor_completions.d/$$program.fish; \
	done
	install -D -m 644 -t $(root)/share/doc/zcopy-cli LICENSE-APACHE LICENSE-MIT README.md

uninstall:
	for program in $(programs); do \
	  rm -f $(root)/bin/$$program $(root)/share/man/man1/$$program.1 \
	    $(root)/share/bash-completion/completions/$$program \
	    $(root)/share/zsh/site-functions/_$$program \
	    $(root)/share/fish/vendor_completions.d/$$program.fish; \
	done
	rm -rf $(root)/share/doc/zcopy-cli

# The pages and completions that the package contains come from the programs that it contains.
deb: all
	rm -rf $(built)/deb
	mkdir -p $(built)/deb/man $(built)/deb/bash $(built)/deb/zsh $(built)/deb/fish
	set -e; for program in $(programs); do \
	  $(built)/$$program --generate man >$(built)/deb/man/$$program.1; \
	  $(built)/$$program --generate bash >$(built)/deb/bash/$$program; \
	  $(built)/$$program --generate zsh >$(built)/deb/zsh/_$$program; \
	  $(built)/$$program --generate fish >$(built)/deb/fish/$$program.fish; \
	done
	$(CARGO) deb --package zcopy-cli --no-build --no-strip --target $(TARGET) --output target/debian/
